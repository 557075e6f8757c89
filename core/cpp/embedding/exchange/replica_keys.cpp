// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/replica_keys.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/gather_rows.hpp"
#include "core/cpp/ops/lookup_sort.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/scatter_rows.hpp"

namespace hugectr {
namespace {

constexpr auto kWord = TensorScalarType::UInt32;

/// Lists begin at a multiple of so many words: 256 bytes.
std::size_t padded_words(std::size_t words) { return (words + 63) / 64 * 64; }

std::size_t words_of(TensorScalarType key_type) {
  return size_of(key_type) / sizeof(std::uint32_t);
}

/// (n, width) words of the memory of `ref`.
TensorRef words(TensorRef ref, std::size_t n, std::size_t width) {
  ref.dtype = kWord;
  ref.shape = {n, width};
  ref.row_stride = width;
  return ref;
}

}  // namespace

ReplicaKeys::ReplicaKeys(GPUResource& gpu, std::string owner, std::size_t devices,
                         std::size_t tables)
    : gpu_(gpu), owner_(std::move(owner)), devices_(devices) {
  constexpr auto kCount = TensorScalarType::Int64;
  counts_arena_ =
      DeviceBuffer2::create(owner_ + " counts of rows", DeviceAllocator(gpu.memory_resource()));
  counts_ = counts_arena_->reserve({tables}, kCount, "own");
  all_counts_ = counts_arena_->reserve({devices_, tables}, kCount, "of all devices");
  counts_arena_->allocate();
  staging_ =
      DeviceBuffer2::create(owner_ + " counts of rows", DeviceAllocator(gpu.staging_resource()));
  staging_->reserve({devices_, tables}, &host_counts_, "of all devices");
  staging_->allocate();
}

std::size_t ReplicaKeys::size(const SparseEmbeddingHashParams& params, std::size_t keys) {
  const std::size_t n = TablePlan::with_reserve(keys);
  const std::size_t key = size_of(params.key_type());
  const std::size_t slot = params.identity() == Identity::SlotAndKey ? sizeof(std::uint32_t) : 0;
  // Lists of one device and of all, rows, numbers, gaps of both types.
  return 2 * n * (key + slot) + n * (2 * sizeof(std::uint32_t) + 12);
}

const std::vector<ReplicaKeys::Shared>& ReplicaKeys::share(std::span<const ReplicaLookup> tables) {
  const OpContext context = gpu_.plan_context();
  group_own(context, tables);
  learn_counts(context, tables);
  order_by_first_key(context, tables);
  make_lists(tables);
  fill_lists(context, tables);
  std::vector<CollectiveCall> calls;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    if (tables[t].plan->replica.most == 0) continue;
    calls.push_back({.collective = "all_gather", .in = own_[t].keys, .out = shared_[t].keys});
    if (!tables[t].with_slots) continue;
    calls.push_back({.collective = "all_gather", .in = own_[t].buckets, .out = shared_[t].buckets});
  }
  if (!calls.empty()) context.communicator->together(calls, *context.stream);
  return shared_;
}

/// Keys of this device's samples by row, as places in the batch. The plan's runs are used for it.
void ReplicaKeys::group_own(const OpContext& context, std::span<const ReplicaLookup> tables) {
  std::size_t most = 1;
  for (const ReplicaLookup& table : tables) most = std::max(most, table.plan->key_count());
  const TensorRef numbers = counting(most);
  const auto count_of = [&](std::size_t t) {
    TensorRef count = counts_.first(1);
    count.data = count.ptr<std::int64_t>() + t;
    return count;
  };
  context.stream->fill_zero(counts_.ref().data, tables.size() * sizeof(std::int64_t));
  std::vector<LookupSort> sorts;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    TablePlan& plan = *tables[t].plan;
    ReplicaPlan& replica = plan.replica;
    const std::size_t n = replica.own_keys = plan.key_count();
    if (!replica.fits(n)) {
      tables[t].released->synchronize();
      replica.reserve(gpu_.memory_resource(), owner_ + " gradients of own samples", n);
    }
    if (n == 0) continue;
    TensorRef keys = numbers;
    keys.shape = {n};
    sorts.push_back({.rows = plan.key_rows(),
                     .buckets = keys,
                     .sorted_buckets = plan.sorted_buckets.ref(),
                     .unique_rows = replica.rows.ref(),
                     .run_offsets = replica.run_offsets.ref(),
                     .run_count = count_of(t),
                     .scratch = plan.scratch.ref(),
                     .row_count = static_cast<std::int64_t>(tables[t].row_count)});
  }
  run_several(context, std::move(sorts));
}

void ReplicaKeys::learn_counts(const OpContext& context, std::span<const ReplicaLookup> tables) {
  const std::size_t count = tables.size();
  TensorRef own = counts_.first(count), all = all_counts_.first(count);
  all.shape = {devices_, count};
  all.row_stride = count;
  context.communicator->all_gather(own, all, *context.stream);
  std::int64_t* const host = host_counts_.get_ptr();
  context.stream->copy(host, all.data, all.size_in_bytes());
  context.stream->synchronize();
  has_gaps_.assign(count, false);
  for (std::size_t t = 0; t < count; ++t) {
    ReplicaPlan& replica = tables[t].plan->replica;
    const auto rows_of = [&](std::size_t r) {
      return static_cast<std::size_t>(host[r * count + t]);
    };
    replica.own = rows_of(tables[t].route->rank());
    replica.most = 0;
    for (std::size_t r = 0; r < devices_; ++r) replica.most = std::max(replica.most, rows_of(r));
    for (std::size_t r = 0; r < devices_; ++r) {
      if (rows_of(r) < replica.most) has_gaps_[t] = true;
    }
  }
}

/// The plan's unique_rows: first key of each distinct row, ascending. plan.replica: buckets of the
/// runs, and the place of each run among them.
void ReplicaKeys::order_by_first_key(const OpContext& context,
                                     std::span<const ReplicaLookup> tables) const {
  std::vector<GatherRows> gathers;
  std::vector<LookupSort> sorts;
  std::vector<ScatterRows> scatters;
  for (const ReplicaLookup& table : tables) {
    const TablePlan& plan = *table.plan;
    const ReplicaPlan& replica = plan.replica;
    const std::size_t n = replica.own_keys, rows = replica.own;
    if (n == 0) continue;
    const TensorRef places = words(plan.sorted_buckets.ref(), n, 1);
    gathers.push_back({.rows = plan.sorted_buckets.first(n),
                       .source = words(plan.key_buckets(), n, 1),
                       .values = words(replica.sorted_buckets.ref(), n, 1)});
    gathers.push_back({.rows = replica.run_offsets.first(rows),
                       .source = places,
                       .values = words(replica.places.ref(), rows, 1)});
    sorts.push_back({.rows = replica.places.first(rows),
                     .buckets = counting_.first(rows),
                     .sorted_buckets = plan.sorted_buckets.ref(),
                     .unique_rows = plan.unique_rows.ref(),
                     .run_offsets = plan.run_offsets.ref(),
                     .run_count = plan.run_count.ref(),
                     .scratch = plan.scratch.ref(),
                     .row_count = static_cast<std::int64_t>(n)});
    if (rows == 0) continue;
    scatters.push_back({.rows = plan.sorted_buckets.first(rows),
                        .values = words(counting_.ref(), rows, 1),
                        .target = words(replica.places.ref(), rows, 1)});
  }
  run_several(context, std::move(gathers));
  run_several(context, std::move(sorts));
  run_several(context, std::move(scatters));
}

void ReplicaKeys::make_lists(std::span<const ReplicaLookup> tables) {
  // Of a table: own keys, all keys, own buckets, all buckets, rows.
  const auto each = [&](auto&& take) {
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const std::size_t most = tables[t].plan->replica.most, all = devices_ * most;
      const std::size_t width = words_of(tables[t].route->params().key_type());
      take(t, 0, most * width);
      take(t, 1, all * width);
      take(t, 2, tables[t].with_slots ? most : 0);
      take(t, 3, tables[t].with_slots ? all : 0);
      take(t, 4, all);
    }
  };
  std::size_t count = 0, gaps = 0;
  each([&](std::size_t, int, std::size_t n) { count += padded_words(n); });
  for (const ReplicaLookup& table : tables) {
    gaps = std::max(gaps, table.plan->replica.most - table.plan->replica.own);
  }
  if (!lists_arena_ || count > list_words_) {
    gpu_.plan_stream().synchronize();
    const std::size_t size = TablePlan::with_reserve(count);
    auto next =
        DeviceBuffer2::create(owner_ + " keys of all", DeviceAllocator(gpu_.memory_resource()));
    lists_ = next->reserve({size}, kWord, "distinct keys and their rows");
    list_words_ = 0;
    next->allocate();
    lists_arena_ = std::move(next);
    list_words_ = size;
  }
  if (gaps > gap_keys_) reserve_gaps(gaps);
  own_.assign(tables.size(), {});
  shared_.assign(tables.size(), {});
  auto* at = lists_.ref().ptr<std::uint32_t>();
  each([&](std::size_t t, int which, std::size_t n) {
    TensorRef ref = lists_.ref();
    ref.data = at;
    ref.shape = {n};
    ref.row_stride = 1;
    at += padded_words(n);
    if (which < 2) {
      ref.dtype = tables[t].route->params().key_type();
      ref.shape = {n / words_of(ref.dtype)};
    }
    if (which == 0) own_[t].keys = ref;
    if (which == 1) shared_[t].keys = ref;
    if (which == 2 && tables[t].with_slots) own_[t].buckets = ref;
    if (which == 3 && tables[t].with_slots) shared_[t].buckets = ref;
    if (which == 4) shared_[t].rows = ref;
  });
}

void ReplicaKeys::fill_lists(const OpContext& context,
                             std::span<const ReplicaLookup> tables) const {
  std::vector<GatherRows> gathers;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const TablePlan& plan = *tables[t].plan;
    const std::size_t n = plan.replica.own_keys, rows = plan.replica.own;
    const std::size_t gaps = plan.replica.most - rows, width = words_of(own_[t].keys.dtype);
    if (gaps > 0) {
      const std::size_t bytes = size_of(own_[t].keys.dtype);
      context.stream->copy(static_cast<char*>(own_[t].keys.data) + rows * bytes,
                           width == 1 ? gaps32_.ref().data : gaps64_.ref().data, gaps * bytes);
    }
    if (rows == 0) continue;
    const TensorRef firsts = plan.unique_rows.first(rows);
    gathers.push_back({.rows = firsts,
                       .source = words(plan.own.keys, n, width),
                       .values = words(own_[t].keys, rows, width)});
    if (!tables[t].with_slots) continue;
    gathers.push_back({.rows = firsts,
                       .source = words(plan.key_buckets(), n, 1),
                       .values = words(own_[t].buckets, rows, 1)});
  }
  run_several(context, std::move(gathers));
}

TensorRef ReplicaKeys::counting(std::size_t n) {
  if (n > numbers_) {
    gpu_.plan_stream().synchronize();
    const std::size_t size = TablePlan::with_reserve(n);
    auto next = DeviceBuffer2::create(owner_ + " numbers", DeviceAllocator(gpu_.memory_resource()));
    counting_ = next->reserve({size}, kWord, "0, 1, 2, ...");
    numbers_ = 0;
    next->allocate();
    counting_arena_ = std::move(next);
    std::vector<std::uint32_t> numbers(size);
    std::iota(numbers.begin(), numbers.end(), 0u);
    Stream& stream = gpu_.plan_stream();
    stream.copy(counting_.ref().data, numbers.data(), size * sizeof numbers[0]);
    stream.synchronize();
    numbers_ = size;
  }
  return counting_.first(n);
}

void ReplicaKeys::reserve_gaps(std::size_t n) {
  gpu_.plan_stream().synchronize();
  const std::size_t size = TablePlan::with_reserve(n);
  auto next = DeviceBuffer2::create(owner_ + " gaps", DeviceAllocator(gpu_.memory_resource()));
  gaps32_ = next->reserve({size}, kWord, "reserved keys, uint32");
  gaps64_ = next->reserve({size}, TensorScalarType::Int64, "reserved keys, int64");
  gap_keys_ = 0;
  next->allocate();
  gaps_arena_ = std::move(next);
  const std::vector<std::uint32_t> narrow(size, kEmptyKey<std::uint32_t>);
  const std::vector<std::int64_t> wide(size, kEmptyKey<std::int64_t>);
  Stream& stream = gpu_.plan_stream();
  stream.copy(gaps32_.ref().data, narrow.data(), size * sizeof narrow[0]);
  stream.copy(gaps64_.ref().data, wide.data(), size * sizeof wide[0]);
  stream.synchronize();
  gap_keys_ = size;
}

std::vector<MemoryReportEntry> ReplicaKeys::memory_report() const {
  std::vector<MemoryReportEntry> report;
  for (const auto& arena : {counts_arena_, counting_arena_, gaps_arena_, lists_arena_}) {
    if (arena) report.insert(report.end(), arena->report().begin(), arena->report().end());
  }
  return report;
}

}  // namespace hugectr
