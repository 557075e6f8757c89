// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/replica_exchange.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/copy_blocks.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cpp/ops/gather_rows.hpp"
#include "core/cpp/ops/lookup_sort.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/scatter_rows.hpp"

namespace hugectr {
namespace {

constexpr auto kSum = TensorScalarType::Float32;

/// The first n numbers as rows of one.
TensorRef column_of(TensorRef ref, std::size_t n) {
  ref.shape = {n, 1};
  ref.row_stride = 1;
  return ref;
}

/// The first n elements.
TensorRef slice_of(TensorRef ref, std::size_t n) {
  ref.shape = {n};
  return ref;
}

/// (n, d) of `type` at a byte of a buffer.
TensorRef sums_at(const TensorRef& buffer, std::size_t byte, TensorScalarType type, std::size_t n,
                  std::size_t d) {
  TensorRef ref = buffer;
  ref.data = static_cast<char*>(ref.data) + byte;
  ref.dtype = type;
  ref.shape = {n, d};
  ref.row_stride = d;
  return ref;
}

/// Sums of a table begin at a multiple of so many bytes.
std::size_t padded_bytes(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// What sums travel as: a key of every sample would leave the range of float16.
TensorScalarType wire_type(const SparseEmbeddingHashParams& params) {
  return params.output_type == TensorScalarType::Float16 ? kSum : params.output_type;
}

}  // namespace

ReplicaExchange::ReplicaExchange(GPUResource& gpu, std::string owner, std::size_t devices,
                                 std::size_t tables)
    : gpu_(gpu),
      owner_(std::move(owner)),
      devices_(devices),
      keys_(gpu, owner_, devices, tables),
      pooled_(make_pooled_exchange()) {
  staging_ =
      DeviceBuffer2::create(owner_ + " counts of runs", DeviceAllocator(gpu.staging_resource()));
  staging_->reserve({tables}, &found_, "counts");
  staging_->allocate();
}

std::size_t ReplicaExchange::size_of_plan(const SparseEmbeddingHashParams& params,
                                          std::size_t devices, std::size_t keys) {
  // Sums of a device's rows, and those of all, which are no more than twice the rows that there
  // are (adds_up()).
  std::size_t all = keys;
  if (const std::size_t rows = params.max_vocabulary_size_per_gpu; rows > 0) {
    all = std::min(all, 2 * rows);
  }
  const std::size_t own = std::min(all, (keys + devices - 1) / devices);
  return (2 * own + all) * params.embedding_vec_size * size_of(kSum);
}

void ReplicaExchange::plan(std::span<const ReplicaLookup> tables) {
  const OpContext context = gpu_.plan_context();
  sort_batch(context, tables);
  std::size_t rows = 0, distinct = 0;
  for (const ReplicaLookup& table : tables) {
    ReplicaPlan& replica = table.plan->replica;
    replica.used = true;
    if (!replica.added_up) continue;
    rows = std::max(rows, table.plan->extent.rows);
    distinct = std::max(distinct, replica.distinct);
  }
  if (rows > rows_ || distinct > distinct_) reserve_numbers(rows, distinct);
  reserve_sums(tables);
  for (const ReplicaLookup& table : tables) {
    if (table.plan->replica.added_up) number_rows(context, table);
  }
}

/// Runs of all devices' lists by row: the gap behind a list is of no row.
void ReplicaExchange::sort_batch(const OpContext& context, std::span<const ReplicaLookup> tables) {
  std::size_t most = 0;
  for (const ReplicaLookup& table : tables) {
    most = std::max(most, devices_ * table.plan->replica.most);
  }
  const TensorRef places = keys_.counting(most + 1);
  std::vector<LookupSort> sorts;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const TablePlan& plan = *tables[t].plan;
    const std::size_t all = devices_ * plan.replica.most;
    if (all == 0) {
      context.stream->fill_zero(plan.run_count.ref().data, sizeof(std::int64_t));
      continue;
    }
    sorts.push_back({.rows = keys_.shared()[t].rows,
                     .buckets = slice_of(places, all),
                     .sorted_buckets = plan.sorted_buckets.ref(),
                     .unique_rows = plan.unique_rows.ref(),
                     .run_offsets = plan.run_offsets.ref(),
                     .run_count = plan.run_count.ref(),
                     .scratch = plan.scratch.ref(),
                     .row_count = static_cast<std::int64_t>(kNoRow) + 1});
  }
  run_several(context, std::move(sorts));
  std::vector<CopyBlocks> counts;  // the device writes staging memory as its own
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const TensorRef count = tables[t].plan->run_count.first(1);
    TensorRef to = count;
    to.data = found_.get_ptr() + t;
    counts.push_back({.in = count, .out = to, .from = {0}, .to = {0}, .sizes = {1}});
  }
  run_several(context, std::move(counts));
  context.stream->synchronize();
  for (std::size_t t = 0; t < tables.size(); ++t) {
    TablePlan& plan = *tables[t].plan;
    ReplicaPlan& replica = plan.replica;
    const std::int64_t gap = keys_.has_gaps(t) ? 1 : 0;
    const std::int64_t distinct = found_.get_ptr()[t] - gap;
    if (gap > 0) {
      context.stream->copy_scalars(plan.run_count.ref().data, &distinct, sizeof distinct);
    }
    replica.distinct = static_cast<std::size_t>(distinct);
    replica.type = wire_type(tables[t].route->params());
    replica.added_up = adds_up(tables[t]);
    if (replica.added_up) replica.type = kSum;
  }
}

/// Whether sums of rows, there and back, move fewer bytes than the lists of all devices.
bool ReplicaExchange::adds_up(const ReplicaLookup& table) const {
  const ReplicaPlan& replica = table.plan->replica;
  return 2 * replica.distinct * size_of(kSum) < devices_ * replica.most * size_of(replica.type);
}

/// Numbers the distinct rows of the batch by their first place in the lists: a run's only bucket is
/// that number, and a sum of this device's rows goes there.
void ReplicaExchange::number_rows(const OpContext& context, const ReplicaLookup& table) {
  const TablePlan& plan = *table.plan;
  const ReplicaPlan& replica = plan.replica;
  const std::size_t all = devices_ * replica.most, distinct = replica.distinct;
  const TensorRef counting = keys_.counting(distinct + 1);
  const TensorRef number_of_run = column_of(plan.sorted_buckets.ref(), distinct);
  run(context, GatherRows{.rows = plan.run_offsets.first(distinct),
                          .source = column_of(plan.sorted_buckets.ref(), all),
                          .values = column_of(firsts_.ref(), distinct)});
  run(context, LookupSort{.rows = firsts_.first(distinct),
                          .buckets = slice_of(counting, distinct),
                          .sorted_buckets = order_.ref(),
                          .unique_rows = unused_rows_.ref(),
                          .run_offsets = unused_offsets_.ref(),
                          .run_count = unused_count_.ref(),
                          .scratch = plan.scratch.ref(),
                          .row_count = static_cast<std::int64_t>(all)});
  run(context, ScatterRows{.rows = order_.first(distinct),
                           .values = column_of(counting, distinct),
                           .target = number_of_run});
  context.stream->copy(plan.run_offsets.ref().data, counting.data,
                       (distinct + 1) * sizeof(std::uint32_t));
  const TensorRef numbers = column_of(numbers_.ref(), plan.extent.rows);
  run(context,
      ScatterRows{
          .rows = plan.unique_rows.first(distinct), .values = number_of_run, .target = numbers});
  if (replica.own == 0) return;
  run(context, GatherRows{.rows = replica.rows.first(replica.own),
                          .source = numbers,
                          .values = column_of(replica.places.ref(), replica.own)});
}

/// Memory for the sums of all tables: those that are added up lie together.
void ReplicaExchange::reserve_sums(std::span<const ReplicaLookup> tables) const {
  std::size_t bytes = 0;
  const auto take = [&](std::size_t n) { return std::exchange(bytes, bytes + padded_bytes(n)); };
  struct Places {
    std::size_t own = 0, sent = 0, received = 0;
  };
  std::vector<Places> places(tables.size());
  for (const bool added_up : {true, false}) {
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const ReplicaPlan& replica = tables[t].plan->replica;
      if (replica.added_up != added_up) continue;
      const std::size_t row = tables[t].route->params().embedding_vec_size * size_of(replica.type);
      places[t].sent = take((added_up ? replica.distinct : replica.most) * row);
      if (!added_up) places[t].received = take(devices_ * replica.most * row);
    }
  }
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const ReplicaPlan& replica = tables[t].plan->replica;
    places[t].own =
        take(replica.own * tables[t].route->params().embedding_vec_size * size_of(replica.type));
  }
  std::shared_ptr<DeviceBuffer2>& arena = tables.front().plan->replica.sums_arena;
  if (!arena || arena->size_in_bytes() < bytes) {
    // Of this slot, whose former plan may still be read.
    gpu_.plan_stream().synchronize();
    tables.front().released->synchronize();
    auto next =
        DeviceBuffer2::create(owner_ + " sums by row", DeviceAllocator(gpu_.memory_resource()));
    TensorBag2 sums = next->reserve({TablePlan::with_reserve(bytes / sizeof(float))}, kSum, "sums");
    next->allocate();
    arena = std::move(next);
    tables.front().plan->replica.sums = sums;
  }
  const TensorRef memory = tables.front().plan->replica.sums.ref();
  for (std::size_t t = 0; t < tables.size(); ++t) {
    ReplicaPlan& replica = tables[t].plan->replica;
    const std::size_t d = tables[t].route->params().embedding_vec_size;
    replica.first_sum = memory.data;
    replica.own_sums = sums_at(memory, places[t].own, replica.type, replica.own, d);
    replica.sent = sums_at(memory, places[t].sent, replica.type,
                           replica.added_up ? replica.distinct : replica.most, d);
    replica.received = replica.added_up ? TensorRef{}
                                        : sums_at(memory, places[t].received, replica.type,
                                                  devices_ * replica.most, d);
  }
}

void ReplicaExchange::forward(const OpContext& context, std::span<const Shipment> tables,
                              const Rounding& rounding, MicroBatch part) const {
  pooled_->forward(context, tables, rounding, part);
}

void ReplicaExchange::backward(const OpContext& context, std::span<Shipment> tables,
                               const Rounding&, MicroBatch part) const {
  if (!part.last()) return;
  std::vector<EmbeddingGradient> gradients;
  std::vector<ScatterRows> scatters;
  std::vector<CollectiveCall> gathers;
  TensorRef added_up;
  for (Shipment& table : tables) {
    const ReplicaPlan& replica = table.plan->replica;
    const TensorRef gradient = table.vectors;
    table.vectors = replica.added_up ? replica.sent : replica.received;
    table.vectors.shape = {table.vectors.shape[0], 1, table.vectors.shape[1]};
    if (replica.added_up) {
      added_up = replica.sent;
      // All up to here, padding and tables that are left out among them: alike on all devices.
      added_up.data = replica.first_sum;
      added_up.shape = {
          static_cast<std::size_t>(replica.sent.ptr<float>() - static_cast<float*>(added_up.data)) +
          replica.sent.size()};
      added_up.row_stride = 1;
    } else if (replica.most > 0) {
      gathers.push_back({.collective = "all_gather", .in = replica.sent, .out = replica.received});
    }
    if (replica.own == 0) continue;
    gradients.push_back({.sorted_buckets = replica.sorted_buckets.first(replica.own_keys),
                         .run_offsets = replica.run_offsets.first(replica.own + 1),
                         .gradient = gradient,
                         .scale = table.plan->bucket_scale,
                         .sums = replica.own_sums});
    scatters.push_back({.rows = replica.places.first(replica.own),
                        .values = replica.own_sums,
                        .target = replica.sent});
  }
  if (!added_up.empty()) context.stream->fill_zero(added_up.data, added_up.size_in_bytes());
  run_several(context, std::move(gradients));
  run_several(context, std::move(scatters));
  if (!added_up.empty()) context.communicator->all_reduce(added_up, *context.stream);
  if (!gathers.empty()) context.communicator->together(gathers, *context.stream);
}

void ReplicaExchange::reserve_numbers(std::size_t rows, std::size_t distinct) {
  gpu_.plan_stream().synchronize();
  constexpr auto kNumber = TensorScalarType::UInt32;
  const std::size_t size = std::max(rows_, TablePlan::with_reserve(rows));
  const std::size_t most = std::max(distinct_, TablePlan::with_reserve(distinct));
  auto next =
      DeviceBuffer2::create(owner_ + " numbers of rows", DeviceAllocator(gpu_.memory_resource()));
  numbers_ = next->reserve({size}, kNumber, "number of each row in the batch");
  firsts_ = next->reserve({most}, kNumber, "first place of each row");
  order_ = next->reserve({most}, kNumber, "rows by their first place");
  unused_rows_ = next->reserve({most}, kNumber, "first places in order");
  unused_offsets_ = next->reserve({most + 1}, kNumber, "runs of one");
  unused_count_ = next->reserve({1}, TensorScalarType::Int64, "count of runs");
  rows_ = distinct_ = 0;
  next->allocate();
  numbers_arena_ = std::move(next);
  rows_ = size;
  distinct_ = most;
}

std::vector<MemoryReportEntry> ReplicaExchange::memory_report() const {
  std::vector<MemoryReportEntry> report = keys_.memory_report();
  if (numbers_arena_) {
    report.insert(report.end(), numbers_arena_->report().begin(), numbers_arena_->report().end());
  }
  return report;
}

}  // namespace hugectr
