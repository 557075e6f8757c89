// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/read_lookup.hpp"

#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/lookup/lookup_plan.hpp"
#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cpp/ops/embedding_lookup.hpp"
#include "core/cpp/ops/expand_buckets.hpp"

namespace hugectr {

ReadLookup::ReadLookup(ModelTables& tables, GPUResource& gpu, std::string owner)
    : tables_(tables),
      memory_(gpu.memory_resource()),
      owner_(std::move(owner)),
      parts_(tables.size()) {
  auto staging =
      DeviceBuffer2::create(owner_ + ", report", DeviceAllocator(gpu.staging_resource()));
  staging->reserve({tables.size()}, &reserved_, "reserved keys");
  staging->allocate();
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const SparseEmbeddingHashParams& params = tables[t].params();
    parts_[t].inputs_owner = concat(owner_, ", inputs of ", params.name);
    if (!params.pooled()) parts_[t].starts.emplace(params, gpu.plan_stream(), memory_);
  }
}

void ReadLookup::make_room(const OpContext& context, std::size_t table, std::size_t keys,
                           std::size_t buckets) {
  Part& part = parts_[table];
  if (part.arena && keys <= part.keys && buckets <= part.buckets) return;
  context.stream->synchronize();
  constexpr auto kU32 = TensorScalarType::UInt32;
  const std::size_t room = TablePlan::with_reserve(keys);
  auto arena = DeviceBuffer2::create(concat(owner_, ", ", tables_[table].params().name),
                                     DeviceAllocator(memory_));
  part.bucket_of_key = arena->reserve({room}, kU32, "bucket of each key");
  part.row_of_key = arena->reserve({room}, kU32, "row of each key");
  part.scale = arena->reserve({buckets}, TensorScalarType::Float32, "scale of each bucket");
  part.report = arena->reserve({kReportSize}, TensorScalarType::Int64, "report");
  arena->allocate();
  if (part.starts) part.positions.reserve(memory_, owner_ + ", positions", buckets);
  part.arena = std::move(arena);
  part.keys = room;
  part.buckets = buckets;
}

void ReadLookup::run(const OpContext& context, std::span<const SparseTensor> inputs,
                     const ModelTables::VectorsOf& output) {
  std::vector<PositionOffsets> spreads;
  std::vector<ExpandBuckets> expansions;
  std::vector<HashGet> searches;
  std::vector<BucketScale> scales;
  std::vector<EmbeddingLookup> lookups;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    ShardedTable& table = tables_[t];
    Table& rows = table.part(0);
    Part& part = parts_[t];
    const SparseEmbeddingHashParams& params = table.params();
    const SparseTensor csr =
        part.joined.join(context, memory_, part.inputs_owner, tables_.input_of(t), inputs);
    const std::size_t samples = (csr.row_offsets.size() - 1) / params.slot_num;
    const std::size_t buckets = samples * params.buckets_per_sample();
    make_room(context, t, csr.nnz, buckets);
    TensorRef row_offsets = csr.row_offsets;
    if (!params.pooled()) {
      row_offsets = part.positions.row_offsets(buckets);
      spreads.push_back(part.starts->spread(csr.row_offsets, row_offsets));
    }
    const TensorRef bucket_of_key = part.bucket_of_key.first(csr.nnz);
    const TensorRef row_of_key = part.row_of_key.first(csr.nnz);
    // Without slots in a row's identity nobody asks for the buckets.
    if (table.has_slots()) {
      expansions.push_back({.row_offsets = row_offsets, .buckets = bucket_of_key});
    }
    searches.push_back(rows.to_read(csr.keys, bucket_of_key, table.slot_of_bucket(0), row_of_key,
                                    part.report.ref()));
    TensorRef scale;
    if (params.combiner == Combiner::Mean) {
      scale = part.scale.first(buckets);
      scales.push_back({.row_offsets = csr.row_offsets, .scale = scale});
    }
    lookups.push_back({.rows = row_of_key,
                       .row_offsets = row_offsets,
                       .weights = rows.store().whole(rows.visible().rows).vectors,
                       .scale = scale,
                       .out = output(t)});
  }
  run_several(context, std::move(spreads));
  run_several(context, std::move(expansions));
  run_several(context, std::move(searches));
  run_several(context, std::move(scales));
  run_several(context, std::move(lookups));
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    context.stream->copy(reserved_.get_ptr() + t,
                         parts_[t].report.ref().ptr<std::int64_t>() + kReportedReserved,
                         sizeof(std::int64_t));
  }
}

}  // namespace hugectr
