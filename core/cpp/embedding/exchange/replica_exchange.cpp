// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/replica_exchange.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cpp/ops/gather_rows.hpp"
#include "core/cpp/ops/lookup_sort.hpp"
#include "core/cpp/ops/row_requests.hpp"
#include "core/cpp/ops/scatter_rows.hpp"

namespace hugectr {
namespace {

constexpr auto kNumber = TensorScalarType::UInt32;
constexpr auto kSum = TensorScalarType::Float32;

/// Elements begin .. begin + n - 1.
TensorRef slice_of(TensorRef ref, std::size_t begin, std::size_t n) {
  ref.data = static_cast<char*>(ref.data) + begin * size_of(ref.dtype);
  ref.shape = {n};
  ref.row_stride = 1;
  return ref;
}

/// The first n numbers as rows of one.
TensorRef column_of(TensorRef ref, std::size_t n) {
  ref.shape = {n, 1};
  ref.row_stride = 1;
  return ref;
}

/// Buckets of a device's samples.
std::size_t own_buckets_of(const PlannedLookup& table) {
  return table.plan->bucket_count() / table.route->device_count();
}

/// Vectors of sums that a device holds start at a multiple of so many numbers: 256 bytes.
std::size_t padded_sums(std::size_t count) { return (count + 63) / 64 * 64; }

}  // namespace

ReplicaExchange::ReplicaExchange(GPUResource& gpu, std::string owner, std::size_t tables,
                                 std::size_t sums)
    : gpu_(gpu), owner_(std::move(owner)), gather_(make_pooled_exchange()) {
  staging_ =
      DeviceBuffer2::create(owner_ + " counts of rows", DeviceAllocator(gpu.staging_resource()));
  staging_->reserve({tables, 2}, &found_, "counts");
  staging_->allocate();
  sums_arena_ =
      DeviceBuffer2::create(owner_ + " sums by row", DeviceAllocator(gpu.memory_resource()));
  sums_ = sums_arena_->reserve({sums}, kSum, "sums of gradients by row");
  sums_arena_->allocate();
}

std::size_t ReplicaExchange::most_sums(const SparseEmbeddingHashParams& params) {
  const std::size_t buckets = params.batch_size * params.buckets_per_sample();
  const std::size_t rows = buckets * size_of(params.output_type) / (2 * size_of(kSum));
  return padded_sums(rows * params.embedding_vec_size);
}

std::size_t ReplicaExchange::size(const SparseEmbeddingHashParams& params, std::size_t keys) {
  const std::size_t most = std::max(keys, params.batch_size * params.buckets_per_sample());
  // reserve_keys(): seven arrays of numbers and the scratch of a sort.
  const std::size_t a_key = 7 * sizeof(std::uint32_t) + 2 * sizeof(std::uint64_t);
  return most_sums(params) * size_of(kSum) + TablePlan::with_reserve(most) * a_key;
}

void ReplicaExchange::plan(std::span<const PlannedLookup> tables) {
  const OpContext context = gpu_.plan_context();
  std::size_t most = 0;
  for (const PlannedLookup& table : tables) {
    most = std::max({most, table.plan->key_count(), table.plan->bucket_count()});
  }
  if (!keys_arena_ || most > keys_) reserve_keys(most);
  std::int64_t* const found = found_.get_ptr();
  std::fill_n(found, 2 * tables.size(), 0);
  for (std::size_t t = 0; t < tables.size(); ++t) sort_batch(context, tables[t], found + 2 * t);
  context.stream->synchronize();

  std::size_t numbers = 0, sums = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    TablePlan& plan = *tables[t].plan;
    ReplicaPlan& replica = plan.replica;
    replica.distinct = static_cast<std::size_t>(found[2 * t]);
    replica.used = worth_it(tables[t], replica.distinct);
    if (!replica.used) continue;
    const auto* const ends = reinterpret_cast<const std::uint32_t*>(found + 2 * t + 1);
    replica.own_keys = ends[1] - ends[0];
    if (!replica.fits(replica.own_keys)) {
      tables[t].released->synchronize();
      replica.reserve(gpu_.memory_resource(), owner_ + " gradients of own samples",
                      replica.own_keys);
    }
    replica.first_sum = sums;
    sums += padded_sums(replica.distinct * tables[t].route->params().embedding_vec_size);
    numbers += plan.extent.rows;
  }
  if (sums == 0) return;
  if (!numbers_arena_ || numbers > rows_) reserve_numbers(numbers);
  numbers = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const TablePlan& plan = *tables[t].plan;
    if (!plan.replica.used) continue;
    number_rows(context, tables[t], slice_of(numbers_.ref(), numbers, plan.extent.rows));
    const auto first = *reinterpret_cast<const std::uint32_t*>(found + 2 * t + 1);
    sort_own_samples(context, tables[t], first, found + 2 * t);
    numbers += plan.extent.rows;
  }
  context.stream->synchronize();
  numbers = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    ReplicaPlan& replica = tables[t].plan->replica;
    if (!replica.used) continue;
    replica.own = replica.own_keys == 0 ? 0 : static_cast<std::size_t>(found[2 * t]);
    const std::size_t rows = tables[t].plan->extent.rows;
    if (replica.own > 0) {
      run(context, GatherRows{.rows = TablePlan::first(replica.rows, replica.own),
                              .source = column_of(slice_of(numbers_.ref(), numbers, rows), rows),
                              .values = column_of(replica.places.ref(), replica.own)});
    }
    numbers += rows;
  }
}

/// Distinct rows of the whole batch, their number, and where the keys of this device's samples
/// begin and end. The plan's runs are of keys for now.
void ReplicaExchange::sort_batch(const OpContext& context, const PlannedLookup& table,
                                 std::int64_t* found) const {
  const TablePlan& plan = *table.plan;
  const std::size_t n = plan.key_count(), m = own_buckets_of(table);
  const auto* const offsets = plan.own.row_offsets.ptr<std::uint32_t>();
  const std::size_t rank = table.route->rank();
  auto* const ends = reinterpret_cast<std::uint32_t*>(found + 1);
  context.stream->copy(ends, offsets + rank * m, sizeof *ends);
  context.stream->copy(ends + 1, offsets + (rank + 1) * m, sizeof *ends);
  if (n == 0) return;
  run(context, LookupSort{.rows = plan.key_rows(),
                          .buckets = TablePlan::first(counting_, n),
                          .sorted_buckets = plan.sorted_buckets.ref(),
                          .unique_rows = plan.unique_rows.ref(),
                          .run_offsets = plan.run_offsets.ref(),
                          .run_count = plan.run_count.ref(),
                          .scratch = plan.scratch.ref(),
                          .row_count = static_cast<std::int64_t>(plan.extent.rows)});
  context.stream->copy(found, plan.run_count.ref().data, sizeof *found);
}

/// Numbers the distinct rows of the batch by their first key: a run's only bucket is that number,
/// and numbers[row] too.
void ReplicaExchange::number_rows(const OpContext& context, const PlannedLookup& table,
                                  TensorRef numbers) const {
  const TablePlan& plan = *table.plan;
  const std::size_t n = plan.key_count(), distinct = plan.replica.distinct;
  const TensorRef counting = column_of(counting_.ref(), distinct);
  const TensorRef number_of_run = column_of(plan.sorted_buckets.ref(), distinct);
  run(context, GatherRows{.rows = TablePlan::first(plan.run_offsets, distinct),
                          .source = column_of(plan.sorted_buckets.ref(), n),
                          .values = column_of(firsts_.ref(), distinct)});
  run(context, LookupSort{.rows = TablePlan::first(firsts_, distinct),
                          .buckets = TablePlan::first(counting_, distinct),
                          .sorted_buckets = order_.ref(),
                          .unique_rows = unused_rows_.ref(),
                          .run_offsets = unused_offsets_.ref(),
                          .run_count = unused_count_.ref(),
                          .scratch = scratch_.ref(),
                          .row_count = static_cast<std::int64_t>(n)});
  run(context,
      ScatterRows{
          .rows = TablePlan::first(order_, distinct), .values = counting, .target = number_of_run});
  context.stream->copy(plan.run_offsets.ref().data, counting_.ref().data,
                       (distinct + 1) * sizeof(std::uint32_t));
  run(context, ScatterRows{.rows = TablePlan::first(plan.unique_rows, distinct),
                           .values = number_of_run,
                           .target = column_of(numbers, numbers.size())});
}

/// Runs of this device's samples; `first`: where their keys begin in the batch.
void ReplicaExchange::sort_own_samples(const OpContext& context, const PlannedLookup& table,
                                       std::size_t first, std::int64_t* found) const {
  TablePlan& plan = *table.plan;
  ReplicaPlan& replica = plan.replica;
  const std::size_t m = own_buckets_of(table), begin = table.route->rank() * m;
  replica.run_scale =
      plan.bucket_scale.empty() ? TensorRef{} : slice_of(plan.bucket_scale, begin, m);
  if (replica.own_keys == 0) return;
  const TensorRef offsets = TablePlan::first(own_offsets_, m + 1);
  const TensorRef buckets = TablePlan::first(own_buckets_, replica.own_keys);
  run(context, RebaseOffsets{.row_offsets = slice_of(plan.own.row_offsets, begin, m + 1),
                             .own_offsets = offsets});
  run(context, ExpandBuckets{.row_offsets = offsets, .buckets = buckets});
  run(context, LookupSort{.rows = slice_of(plan.key_rows(), first, replica.own_keys),
                          .buckets = buckets,
                          .sorted_buckets = replica.sorted_buckets.ref(),
                          .unique_rows = replica.rows.ref(),
                          .run_offsets = replica.run_offsets.ref(),
                          .run_count = replica.run_count.ref(),
                          .scratch = scratch_.ref(),
                          .row_count = static_cast<std::int64_t>(plan.extent.rows)});
  context.stream->copy(found, replica.run_count.ref().data, sizeof *found);
}

/// Whether sums of rows, there and back, move no more bytes than gradients of all buckets. They
/// then fit half the memory that is there for those.
bool ReplicaExchange::worth_it(const PlannedLookup& table, std::size_t distinct) {
  const std::size_t buckets = table.plan->bucket_count();
  return distinct > 0 &&
         2 * distinct * size_of(kSum) <= buckets * size_of(table.route->params().output_type);
}

void ReplicaExchange::forward(const OpContext& context, std::span<const Shipment> tables,
                              const Rounding& rounding) const {
  gather_->forward(context, tables, rounding);
}

void ReplicaExchange::backward(const OpContext& context, std::span<Shipment> tables,
                               const Rounding&) const {
  std::vector<EmbeddingGradient> gradients;
  std::vector<ScatterRows> scatters;
  std::size_t count = 0;
  for (Shipment& table : tables) {
    const ReplicaPlan& replica = table.plan->replica;
    const TensorRef gradient = table.vectors;
    const std::size_t d = gradient.shape[2];
    TensorRef all = slice_of(sums_.ref(), replica.first_sum, replica.distinct * d);
    all.shape = {replica.distinct, d};
    all.row_stride = d;
    count = replica.first_sum + replica.distinct * d;
    table.vectors = all;
    table.vectors.shape = {replica.distinct, 1, d};
    if (replica.own == 0) continue;
    TensorRef own = table.route->pooled(kSum, replica.own, 1);
    own.shape = {replica.own, d};
    gradients.push_back(
        {.sorted_buckets = TablePlan::first(replica.sorted_buckets, replica.own_keys),
         .run_offsets = TablePlan::first(replica.run_offsets, replica.own + 1),
         .gradient = gradient,
         .scale = replica.run_scale,
         .sums = own});
    scatters.push_back(
        {.rows = TablePlan::first(replica.places, replica.own), .values = own, .target = all});
  }
  context.stream->fill_zero(sums_.ref().data, count * size_of(kSum));
  run_several(context, std::move(gradients));
  for (const ScatterRows& scatter : scatters) run(context, scatter);
  context.communicator->all_reduce(slice_of(sums_.ref(), 0, count), *context.stream);
}

void ReplicaExchange::reserve_keys(std::size_t n) {
  gpu_.plan_stream().synchronize();
  const std::size_t size = TablePlan::with_reserve(n);
  auto next =
      DeviceBuffer2::create(owner_ + " order of rows", DeviceAllocator(gpu_.memory_resource()));
  counting_ = next->reserve({size + 1}, kNumber, "0, 1, 2, ...");
  firsts_ = next->reserve({size}, kNumber, "first key of each row");
  order_ = next->reserve({size}, kNumber, "rows by their first key");
  unused_rows_ = next->reserve({size}, kNumber, "first keys in order");
  unused_offsets_ = next->reserve({size + 1}, kNumber, "runs of one");
  unused_count_ = next->reserve({1}, TensorScalarType::Int64, "count of runs");
  scratch_ = next->reserve({2 * size}, TensorScalarType::UInt64, "sort scratch");
  own_offsets_ = next->reserve({size + 1}, kNumber, "row offsets of own samples");
  own_buckets_ = next->reserve({size}, kNumber, "buckets of own samples");
  keys_ = 0;
  next->allocate();
  keys_arena_ = std::move(next);
  std::vector<std::uint32_t> numbers(size + 1);
  std::iota(numbers.begin(), numbers.end(), 0u);
  Stream& stream = gpu_.plan_stream();
  stream.copy(counting_.ref().data, numbers.data(), numbers.size() * sizeof(std::uint32_t));
  stream.synchronize();
  keys_ = size;
}

void ReplicaExchange::reserve_numbers(std::size_t rows) {
  gpu_.plan_stream().synchronize();
  const std::size_t size = TablePlan::with_reserve(rows);
  auto next =
      DeviceBuffer2::create(owner_ + " numbers of rows", DeviceAllocator(gpu_.memory_resource()));
  numbers_ = next->reserve({size}, kNumber, "number of each row in the batch");
  rows_ = 0;
  next->allocate();
  numbers_arena_ = std::move(next);
  rows_ = size;
}

std::vector<MemoryReportEntry> ReplicaExchange::memory_report() const {
  std::vector<MemoryReportEntry> report;
  for (const auto& arena : {keys_arena_, numbers_arena_, sums_arena_}) {
    if (arena) report.insert(report.end(), arena->report().begin(), arena->report().end());
  }
  return report;
}

}  // namespace hugectr
