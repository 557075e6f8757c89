// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/collection/table_sharing.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <limits>
#include <utility>

#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/collection/array_part.hpp"
#include "core/cpp/embedding/collection/caller_order.hpp"
#include "core/cpp/embedding/lookup/lookup_plan.hpp"
#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cpp/ops/embedding_lookup.hpp"
#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cpp/ops/filter_keys.hpp"

/// Sharing as who asks for rows does it; as who holds them, it is in table_sharing_rows.cpp.
namespace hugectr {
namespace {

constexpr auto kShareWord = TensorScalarType::UInt32, kShareKey = TensorScalarType::Int64;

std::size_t count_of(std::int64_t n) { return static_cast<std::size_t>(n); }

/// Of keys, when none has been seen yet.
constexpr std::int64_t kFewKeyBits = 24;

std::int64_t bits_of(std::int64_t keys) { return std::bit_width(static_cast<std::uint64_t>(keys)); }

}  // namespace

std::int64_t TableSharing::holder(std::string_view placement, std::size_t table,
                                  std::size_t processes) {
  if (placement == "by_key") return kByKey;
  if (placement == "by_slot") return static_cast<std::int64_t>(owner_of_slot(table, processes));
  HCTR_CHECK(placement == "replicated", "tables of processes are placed by_key, by_slot or ",
             "replicated, not ", placement);
  return kEverywhere;
}

std::vector<std::int64_t> TableSharing::owners(std::size_t table,
                                               std::span<const std::int64_t> keys) const {
  const std::int64_t holder = holders_.at(table);
  std::vector<std::int64_t> found(
      keys.size(), holder == kEverywhere ? static_cast<std::int64_t>(rank_) : holder);
  if (holder != kByKey) return found;
  for (std::size_t i = 0; i < keys.size(); ++i)
    found[i] =
        static_cast<std::int64_t>(owner_of_key(static_cast<std::uint64_t>(keys[i]), processes_));
  return found;
}

TableSharing::TableSharing(TableCollection& tables, std::vector<std::int64_t> holders,
                           std::size_t rank, std::size_t processes)
    : tables_(tables),
      gpu_(tables.gpu()),
      asking_stream_(DeviceBackend::get(gpu_.device().type)
                         .create_stream(gpu_.device(), "asking", StreamPriority::High)),
      holders_(std::move(holders)),
      rank_(rank),
      processes_(processes),
      beside_("hctr-asking") {
  const std::size_t count = tables.size();
  HCTR_CHECK(rank < processes && holders_.size() == count, "a collection of ", count,
             " tables got holders of ", holders_.size(), " as process ", rank, " of ", processes);
  ranks_.resize(count);
  for (std::size_t t = 0; t < count; ++t) {
    const std::int64_t holder = holders_[t];
    HCTR_CHECK(holder >= kEverywhere && holder < static_cast<std::int64_t>(processes), "table '",
               params(t).name, "' can not be with process ", holder, " of ", processes);
    const std::size_t d = params(t).embedding_vec_size;
    const auto same = [&](const Group& group) { return group.d == d; };
    if (std::any_of(groups_.begin(), groups_.end(), same)) continue;
    groups_.push_back({d, order_.size(), 0});
    for (std::size_t other = t; other < count; ++other) {
      if (params(other).embedding_vec_size != d) continue;
      ranks_[other] = static_cast<std::int64_t>(order_.size());
      order_.push_back(other);
      group_of_.push_back(static_cast<std::int64_t>(groups_.size() - 1));
    }
    groups_.back().end = order_.size();
  }
  for (const std::int64_t holder : holders_) {
    owners_.push_back(holder == kEverywhere ? static_cast<std::int64_t>(rank) : holder);
    copies_to_all_ = copies_to_all_ || (holder == kEverywhere && processes > 1);
  }
  const std::size_t counted = 2 * processes * count + 2;
  counts_arena_ =
      DeviceBuffer2::create("rows of processes", DeviceAllocator(gpu_.memory_resource()));
  counts_ = counts_arena_->reserve({counted}, kShareKey, "counts");
  zeros_ = counts_arena_->reserve({2}, kShareWord, "offsets of a bag without keys");
  counts_arena_->allocate();
  staging_arena_ =
      DeviceBuffer2::create("rows of processes", DeviceAllocator(gpu_.staging_resource()));
  staging_arena_->reserve({counted}, &counts_on_host_, "counts");
  staging_arena_->reserve({1}, &wrong_, "wrong");
  staging_arena_->allocate();
  distinct_ = {.counts = array_part(counts_.ref(), 0, {2, processes * count}),
               .largest = array_part(counts_.ref(), counted - 2, {1}),
               .seen = array_part(counts_.ref(), counted - 1, {1}),
               .owners = owners_,
               .ranks = ranks_,
               .groups = group_of_,
               .processes = static_cast<std::int64_t>(processes_),
               .key_bits = kFewKeyBits};
  gpu_.plan_stream().fill_zero(counts_.ref().data, counts_.ref().size_in_bytes());
  gpu_.plan_stream().fill_zero(zeros_.ref().data, zeros_.ref().size_in_bytes());
  gpu_.plan_stream().synchronize();
}

TableSharing::~TableSharing() { forget_asked(); }

void TableSharing::forget_asked() noexcept {
  if (!std::exchange(asked_, false)) return;
  try {
    beside_.wait();
  } catch (const std::exception&) {  // what was submitted before is waited for all the same
  }
  try {
    asking_stream_->synchronize();
  } catch (const std::exception&) {
  }
}

TensorRef TableSharing::take(Growing& memory, const char* name, TensorScalarType type,
                             std::size_t n, Stream& stream) {
  constexpr std::size_t kBytes = sizeof(std::uint64_t);
  const std::size_t words = (n * size_of(type) + kBytes - 1) / kBytes;
  if (words > memory.words || !memory.arena) {
    stream.synchronize();
    memory.words = 0;
    memory.arena.reset();
    const std::size_t size = TablePlan::with_reserve(words);
    auto arena = DeviceBuffer2::create("shared tables", DeviceAllocator(gpu_.memory_resource()));
    memory.memory = arena->reserve({size}, TensorScalarType::UInt64, name);
    arena->allocate();
    memory.arena = std::move(arena);
    memory.words = size;
  }
  TensorRef ref = memory.memory.ref();
  ref.dtype = type;
  return array_part(ref, 0, {n});
}

std::size_t TableSharing::room(std::size_t keys, std::size_t mean_bags) const {
  return 3 * keys + processes_ * order_.size() + mean_bags;
}

void TableSharing::cut_room(SharedBatch& batch, std::span<const SparseTensor> tables,
                            const TensorRef& room) const {
  std::size_t n = 0, mean_bags = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    n += tables[t].keys.size();
    if (tables_.table(t).params().combiner == Combiner::Mean) {
      mean_bags += tables[t].row_offsets.size() - 1;
    }
  }
  HCTR_CHECK(room.dtype == kShareWord && room.size() >= this->room(n, mean_bags), "a batch of ", n,
             " keys has room for ", room.size(), " numbers, needs ", this->room(n, mean_bags));
  std::size_t key = 0, scale = 3 * n + processes_ * order_.size();
  TensorRef scales = room;
  scales.dtype = TensorScalarType::Float32;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const std::size_t keys = tables[t].keys.size(), bags = tables[t].row_offsets.size() - 1;
    batch.keys.push_back(keys);
    batch.row_offsets.push_back(tables[t].row_offsets);
    batch.numbers.push_back(array_part(room, key, {keys}));
    key += keys;
    const bool mean = tables_.table(t).params().combiner == Combiner::Mean;
    batch.scales.push_back(mean ? array_part(scales, scale, {bags}) : TensorRef{});
    if (mean) scale += bags;
  }
  batch.sorted_buckets = array_part(room, n, {n});
  batch.run_offsets = array_part(room, 2 * n, {n + processes_ * order_.size()});
}

/// The ops of ask(), in their order.
struct TableSharing::Asking {
  std::vector<BagOffsets> bags;
  std::vector<ExpandBuckets> expanded;
  std::vector<BucketScale> scales;
};

void TableSharing::ask(SharedBatch& batch, std::span<const SparseTensor> tables,
                       const TensorRef& keys, const TensorRef& room, std::uintptr_t stream,
                       std::vector<BagOffsets> bags, bool beside) {
  HCTR_CHECK(tables.size() == order_.size(), "a collection of ", order_.size(),
             " tables got keys of ", tables.size());
  cut_room(batch, tables, room);
  const std::size_t n = batch.sorted_buckets.size();
  HCTR_CHECK(keys.dtype == kShareKey && keys.size() >= n, "a batch of ", n, " keys has memory for ",
             keys.size(), " distinct ones");
  forget_asked();
  const TensorRef buckets = take(buckets_, "bags of keys", kShareWord, n, *asking_stream_);
  Asking asking{.bags = std::move(bags)};
  distinct_.keys.clear();
  distinct_.buckets = buckets;
  distinct_.distinct = array_part(keys, 0, {n});
  distinct_.sorted_buckets = batch.sorted_buckets;
  distinct_.numbers = array_part(room, 0, {n});
  distinct_.run_offsets = batch.run_offsets;
  std::size_t begin = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    distinct_.keys.push_back(tables[t].keys);
    if (batch.keys[t] > 0) {
      asking.expanded.push_back({.row_offsets = tables[t].row_offsets,
                                 .buckets = array_part(buckets, begin, {batch.keys[t]})});
    }
    begin += batch.keys[t];
    if (batch.scales[t].size() > 0) {
      asking.scales.push_back({.row_offsets = tables[t].row_offsets, .scale = batch.scales[t]});
    }
  }
  const SettledOnError settled(*asking_stream_);
  follow_caller(*asking_stream_, stream);
  asked_ = true;
  if (beside) {
    beside_.begin([this, asking = std::move(asking)]() mutable { submit(std::move(asking)); });
    return;
  }
  submit(std::move(asking));
  precede_caller(*asking_stream_, stream);
}

OpContext TableSharing::asking_context() {
  OpContext context = gpu_.plan_context();
  context.stream = asking_stream_.get();
  context.communicator = nullptr;  // the plan's
  return context;
}

void TableSharing::submit(Asking asking) {
  const SettledOnError settled(*asking_stream_);
  const OpContext context = asking_context();
  TableCollection::make_bags(context, std::move(asking.bags), wrong_);
  run_several(context, std::move(asking.expanded));
  run_several(context, std::move(asking.scales));
  submit_distinct();
}

void TableSharing::submit_distinct() {
  run(asking_context(), distinct_);
  const TensorRef counts = counts_.ref();
  asking_stream_->copy(counts_on_host_.get_ptr(), counts.data, counts.size_in_bytes());
}

void TableSharing::count(SharedBatch& batch) {
  beside_.wait();
  asking_stream_->synchronize();
  asked_ = false;
  TableCollection::check_bags(wrong_);
  const std::size_t count = order_.size(), sections = processes_ * count;
  const std::int64_t* const counts = counts_on_host_.get_ptr();
  // Keys are sorted by the bits that those of the batches before had: rarely some have more.
  if (const std::int64_t bits = bits_of(counts[2 * sections + 1]); bits > distinct_.key_bits) {
    distinct_.key_bits = bits;
    const SettledOnError settled(*asking_stream_);
    submit_distinct();
    asking_stream_->synchronize();
  }
  const std::int64_t largest = counts[2 * sections];
  HCTR_CHECK(largest != std::numeric_limits<std::int64_t>::max(), "a batch: key ", largest,
             " means 'no row' in a table and can not be looked up");
  batch.asked = ProcessRows(count, {counts, counts + sections});
  batch.asked_keys = ProcessRows(count, {counts + sections, counts + 2 * sections});
  batch.wanted = batch.asked;
  for (std::size_t rank = 0; rank < count; ++rank) {
    if (!everywhere(rank)) continue;
    for (std::size_t p = 0; p < processes_; ++p) {
      batch.wanted.at(p, rank) = batch.asked.at(rank_, rank);
    }
  }
}

void TableSharing::copy_to_all(const SharedBatch& batch, const TensorRef& keys,
                               const TensorRef& out, std::uintptr_t stream) {
  CopyBlocks copies{.in = keys, .out = out};
  ProcessRows begins(processes_, order_.size());
  batch.asked.each_block(0, order_.size(),
                         [&](auto p, auto rank, auto begin, auto) { begins.at(p, rank) = begin; });
  batch.wanted.each_block(0, order_.size(), [&](auto p, auto rank, auto begin, auto size) {
    copies.from.push_back(begins.at(everywhere(rank) ? rank_ : p, rank));
    copies.to.push_back(begin);
    copies.sizes.push_back(size);
  });
  tables_.settle_begun();  // which is on the same stream
  const SettledOnError settled(gpu_.plan_stream());
  follow_caller(gpu_.plan_stream(), stream);
  run(gpu_.plan_context(), std::move(copies));
  precede_caller(gpu_.plan_stream(), stream);
}

void TableSharing::pool(const SharedBatch& batch, std::span<const TensorRef> came,
                        std::span<const TensorRef> outputs, std::uintptr_t stream) {
  HCTR_CHECK(came.size() == groups_.size() && outputs.size() == order_.size(), "a collection of ",
             order_.size(), " tables in ", groups_.size(), " groups got ", outputs.size(),
             " outputs and ", came.size(), " messages");
  std::vector<EmbeddingLookup> pools;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t rank = groups_[g].first; rank < groups_[g].end; ++rank) {
      const std::size_t t = order_[rank];
      if (outputs[t].size() == 0) continue;
      pools.push_back({.rows = batch.numbers[t],
                       .row_offsets = batch.row_offsets[t],
                       .weights = came[g],
                       .scale = batch.scales[t],
                       .out = outputs[t]});
    }
  }
  const SettledOnError settled(gpu_.compute_stream());
  follow_caller(gpu_.compute_stream(), stream);
  run_several(gpu_.compute_context(), std::move(pools));
  precede_caller(gpu_.compute_stream(), stream);
}

void TableSharing::sum_gradients(const SharedBatch& batch, std::span<const TensorRef> gradients,
                                 double factor, std::span<const TensorRef> out,
                                 std::uintptr_t stream) {
  HCTR_CHECK(out.size() == groups_.size() && gradients.size() == order_.size(), "a collection of ",
             order_.size(), " tables in ", groups_.size(), " groups got ", gradients.size(),
             " gradients and ", out.size(), " messages");
  const std::size_t count = order_.size();
  std::vector<std::int64_t> row_begins, key_begins;  // of the rows asked for, by section
  std::int64_t rows = 0, keys = 0;
  for (std::size_t s = 0; s < processes_ * count; ++s) {
    row_begins.push_back(std::exchange(rows, rows + batch.asked.counts()[s]));
    key_begins.push_back(std::exchange(keys, keys + batch.asked_keys.counts()[s]));
  }
  Stream& compute = gpu_.compute_stream();
  const SettledOnError settled(compute);
  follow_caller(compute, stream);
  std::vector<EmbeddingGradient> sums;
  std::vector<CopyBlocks> copies;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    CopyBlocks& to_all = copies.emplace_back(CopyBlocks{.in = out[g], .out = out[g]});
    ProcessRows begins(processes_, count);
    batch.wanted.each_block(group.first, group.end, [&](auto p, auto rank, auto begin, auto) {
      begins.at(p, rank) = begin;
    });
    batch.wanted.each_block(group.first, group.end, [&](auto p, auto rank, auto begin, auto n) {
      if (n == 0) return;
      const std::size_t t = order_[rank], section = p * count + rank;
      const TensorRef sum = array_part(out[g], count_of(begin) * group.d, {count_of(n), group.d});
      if (everywhere(rank) && p != rank_) {
        to_all.from.push_back(begins.at(rank_, rank) * static_cast<std::int64_t>(group.d));
        to_all.to.push_back(begin * static_cast<std::int64_t>(group.d));
        to_all.sizes.push_back(n * static_cast<std::int64_t>(group.d));
        return;
      }
      if (gradients[t].empty()) return compute.fill_zero(sum.data, sum.size_in_bytes());
      sums.push_back(
          {.sorted_buckets = array_part(batch.sorted_buckets, count_of(key_begins[section]),
                                        {count_of(batch.asked_keys.at(p, rank))}),
           .run_offsets = array_part(batch.run_offsets, count_of(row_begins[section]) + section,
                                     {count_of(n) + 1}),
           .gradient = gradients[t],
           .scale = batch.scales[t],
           .sums = sum,
           .factor = factor});
    });
  }
  run_several(gpu_.compute_context(), std::move(sums));
  if (copies_to_all_) run_several(gpu_.compute_context(), std::move(copies));
  precede_caller(compute, stream);
}

}  // namespace hugectr
