// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/unique_exchange.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cpp/ops/embedding_lookup.hpp"
#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cpp/ops/lookup_sort.hpp"
#include "core/cpp/ops/row_requests.hpp"

namespace hugectr {
namespace {

constexpr auto kU32 = TensorScalarType::UInt32;

std::vector<std::size_t> times(std::vector<std::size_t> counts, std::size_t factor) {
  for (std::size_t& count : counts) count *= factor;
  return counts;
}

/// Rows of the table that a request's number counts by.
std::int64_t row_count_of(const TablePlan& plan) {
  return static_cast<std::int64_t>(std::max<std::size_t>(plan.extent.rows, 1));
}

/// Of the buckets of a device's samples; empty: 1.
TensorRef scale_of(const Shipment& table, std::size_t buckets) {
  return table.route->params().combiner == Combiner::Mean
             ? TablePlan::first(table.plan->unique.scale, buckets)
             : TensorRef{};
}

}  // namespace

class UniqueExchange::Counts {
 public:
  /// `all`: (N, tables, 2, N), of which table `number`.
  Counts(const std::int64_t* all, std::size_t devices, std::size_t tables, std::size_t number)
      : first_(all + number * 2 * devices), devices_(devices), stride_(tables * 2 * devices) {}

  /// Whether every device could make its requests.
  bool complete() const {
    for (std::size_t owner = 0; owner < devices_; ++owner) {
      const std::int64_t* const counts = first_ + owner * stride_;
      if (std::any_of(counts, counts + 2 * devices_, [](auto n) { return n < 0; })) return false;
    }
    return true;
  }
  std::size_t rows(std::size_t owner, std::size_t asker) const { return at(owner, 0, asker); }
  std::size_t keys(std::size_t owner, std::size_t asker) const { return at(owner, 1, asker); }

  /// f(r) for every device.
  template <class F>
  std::vector<std::size_t> each(const F& f) const {
    std::vector<std::size_t> result(devices_);
    for (std::size_t r = 0; r < devices_; ++r) result[r] = f(r);
    return result;
  }
  /// Sum of f(r) over devices 0 .. last - 1.
  template <class F>
  std::size_t sum(std::size_t last, const F& f) const {
    std::size_t result = 0;
    for (std::size_t r = 0; r < last; ++r) result += f(r);
    return result;
  }

 private:
  std::size_t at(std::size_t owner, std::size_t kind, std::size_t asker) const {
    return static_cast<std::size_t>(first_[owner * stride_ + kind * devices_ + asker]);
  }
  const std::int64_t* first_;
  std::size_t devices_, stride_;
};

UniqueExchange::UniqueExchange(GPUResource& gpu, std::string owner, std::size_t devices,
                               std::size_t tables)
    : gpu_(gpu), owner_(std::move(owner)), devices_(devices), rank_(gpu.get_global_id()) {
  counts_arena_ =
      DeviceBuffer2::create(owner_ + " request counts", DeviceAllocator(gpu.memory_resource()));
  counts_ = counts_arena_->reserve({tables, 2, devices_}, TensorScalarType::Int64, "counts");
  all_counts_ = counts_arena_->reserve({devices_, tables, 2, devices_}, TensorScalarType::Int64,
                                       "all counts");
  counts_arena_->allocate();
  staging_arena_ =
      DeviceBuffer2::create(owner_ + " request counts", DeviceAllocator(gpu.staging_resource()));
  staging_arena_->reserve({devices_, tables, 2, devices_}, &counts_on_host_, "all counts");
  staging_arena_->allocate();
}

void UniqueExchange::plan(std::span<const PlannedLookup> tables) {
  const OpContext context = gpu_.plan_context();
  for (std::size_t t = 0; t < tables.size(); ++t) request(context, tables[t], t);
  exchange_counts(context, tables.size());
  bool any = false;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const Counts counts(counts_on_host_.get_ptr(), devices_, tables.size(), t);
    UniquePlan& unique = tables[t].plan->unique;
    unique.used = counts.complete() && worth_it(counts, tables[t]);
    if (!unique.used) continue;
    unique.asked = counts.each([&](std::size_t r) { return counts.rows(rank_, r); });
    unique.given = counts.each([&](std::size_t r) { return counts.rows(r, rank_); });
    place(context, tables[t], counts);
    sort_runs(context, tables[t]);
    any = true;
  }
  // A failure of what came from other devices must be known before a step is given these numbers.
  if (any) context.stream->synchronize();
}

/// Which rows each device asks of this one, and how many. Uses the plan's runs for the requests.
void UniqueExchange::request(const OpContext& context, const PlannedLookup& table,
                             std::size_t number) {
  TablePlan& plan = *table.plan;
  const std::size_t n = plan.key_count(), width = 2 * devices_;
  const std::int64_t row_count = row_count_of(plan);
  TensorRef counts = counts_.ref();
  counts.data = counts.ptr<std::int64_t>() + number * width;
  counts.shape = {2, devices_};
  counts.row_stride = devices_;
  if (static_cast<std::uint64_t>(row_count) > 0xFFFFFFFFu / devices_) {
    // Request numbers would not fit 32 bits: this device says so, and all go on with pooled
    // vectors.
    std::int64_t* const none = counts_on_host_.get_ptr() + number * width;
    std::fill_n(none, width, std::int64_t{-1});
    context.stream->copy(counts.data, none, counts.size_in_bytes());
    return;
  }
  if (n > request_keys_ || !request_arena_) reserve_request(n);
  if (!plan.unique.owner_fits(n)) {
    context.stream->synchronize();
    table.released->synchronize();
    plan.unique.reserve_owner(gpu_.memory_resource(), owner_ + " rows asked for", n);
  }
  const TensorRef requests = TablePlan::first(requests_, n);
  run(context, RequestRows{.rows = plan.key_rows(),
                           .buckets = plan.key_buckets(),
                           .requests = requests,
                           .places = TablePlan::first(plan.unique.places, n + 1),
                           .row_count = row_count,
                           .buckets_per_device = static_cast<std::int64_t>(
                               std::max<std::size_t>(plan.bucket_count() / devices_, 1))});
  run(context, LookupSort{.rows = requests,
                          .buckets = plan.own.places,
                          .sorted_buckets = plan.sorted_buckets.ref(),
                          .unique_rows = plan.unique_rows.ref(),
                          .run_offsets = plan.run_offsets.ref(),
                          .run_count = plan.run_count.ref(),
                          .scratch = plan.scratch.ref(),
                          .row_count = row_count * static_cast<std::int64_t>(devices_)});
  run(context, CountRequests{.requests = TablePlan::first(plan.unique_rows, n),
                             .run_offsets = plan.run_offsets.ref(),
                             .run_count = plan.run_count.ref(),
                             .rows = plan.unique.rows.ref(),
                             .counts = counts,
                             .row_count = row_count});
}

void UniqueExchange::exchange_counts(const OpContext& context, std::size_t tables) {
  TensorRef own = counts_.ref(), all = all_counts_.ref();
  own.shape = {tables, 2, devices_};
  all.shape = {devices_, tables, 2, devices_};
  all.row_stride = own.size();
  context.communicator->all_gather(own, all, *context.stream);
  context.stream->copy(counts_on_host_.get_ptr(), all.data, all.size_in_bytes());
  context.stream->synchronize();
}

/// Whether rows fit the buffers of the exchange everywhere, and move less than pooled vectors
/// would.
bool UniqueExchange::worth_it(const Counts& counts, const PlannedLookup& table) const {
  const Route& route = *table.route;
  const SparseEmbeddingHashParams& params = route.params();
  const std::size_t samples = table.plan->samples / devices_;
  // Sums of float16 gradients travel as float32.
  const std::size_t width = params.output_type == TensorScalarType::Float16 ? 2 : 1;
  std::size_t most = 0, most_keys = 0;
  for (std::size_t device = 0; device < devices_; ++device) {
    const std::size_t self = counts.rows(device, device);
    const std::size_t asked = counts.sum(devices_, [&](auto r) { return counts.rows(device, r); });
    const std::size_t given = counts.sum(devices_, [&](auto r) { return counts.rows(r, device); });
    if (asked * width > route.pooled_vectors(device) || given * width > route.packed_vectors()) {
      return false;
    }
    most = std::max({most, asked - self, given - self});
    const std::size_t own = counts.keys(device, device);
    most_keys = std::max(
        {most_keys, counts.sum(devices_, [&](auto r) { return counts.keys(device, r); }) - own,
         counts.sum(devices_, [&](auto r) { return counts.keys(r, device); }) - own});
  }
  if (params.exchange == ExchangeType::Unique) return true;
  // Bytes there and back of the device that moves most, and 4 a key and row at planning time. Rows
  // are gathered, and pooled by the device that asked: about one pass over the vectors more.
  const std::size_t vector = params.embedding_vec_size * size_of(params.output_type);
  const std::size_t pooled = (devices_ - 1) * samples * route.placement().slots_of(0) * 2 * vector;
  const std::size_t unique = most * (1 + width) * vector + 4 * (most_keys + most);
  return 4 * unique <= 3 * pooled;
}

/// Takes the runs that the owners have made of this device's keys.
void UniqueExchange::place(const OpContext& context, const PlannedLookup& table,
                           const Counts& counts) {
  const SparseEmbeddingHashParams& params = table.route->params();
  TablePlan& plan = *table.plan;
  UniquePlan& unique = plan.unique;
  const auto sent = counts.each([&](std::size_t r) { return counts.keys(rank_, r); });
  const auto taken = counts.each([&](std::size_t r) { return counts.keys(r, rank_); });
  const std::size_t asked = unique.asked_rows(), given = unique.given_rows();
  const std::size_t n = counts.sum(devices_, [&](auto r) { return taken[r]; });
  const std::size_t m = plan.samples / devices_ * params.slot_num;
  unique.keys = n;
  if (n > placing_keys_ || !placing_arena_) reserve_placing(n);
  if (!unique.asker_fits(n, m)) {
    context.stream->synchronize();
    table.released->synchronize();
    unique.reserve_asker(gpu_.memory_resource(), owner_ + " rows that come", n, m);
  }
  const TensorRef keys = TablePlan::first(keys_, n), offsets = TablePlan::first(offsets_, given);
  context.communicator->all_to_all(TablePlan::first(plan.sorted_buckets, plan.own.keys.size()),
                                   sent, keys, taken, *context.stream);
  context.communicator->all_to_all(TablePlan::first(plan.run_offsets, asked), unique.asked, offsets,
                                   unique.given, *context.stream);

  TensorRef row_offsets = table.batch->row_offsets;
  row_offsets.data = row_offsets.ptr<std::uint32_t>() + rank_ * m;
  row_offsets.shape = {m + 1};
  const TensorRef own_offsets = TablePlan::first(unique.row_offsets, m + 1);
  const TensorRef buckets = TablePlan::first(buckets_, n);
  run(context, RebaseOffsets{.row_offsets = row_offsets, .own_offsets = own_offsets});
  run(context, ExpandBuckets{.row_offsets = own_offsets, .buckets = buckets});
  std::vector<std::int64_t> row_starts, key_starts;
  for (std::size_t r = 0; r < devices_; ++r) {
    const auto sum = [&](const std::vector<std::size_t>& values) {
      return static_cast<std::int64_t>(counts.sum(r, [&](auto o) { return values[o]; }));
    };
    row_starts.push_back(sum(unique.given));
    key_starts.push_back(sum(taken));
  }
  run(context, PlaceRequests{.offsets = offsets,
                             .keys = keys,
                             .row_offsets = row_offsets,
                             .buckets = buckets,
                             .run_offsets = TablePlan::first(unique.run_offsets, given + 1),
                             .numbers = TablePlan::first(unique.given_places, n),
                             .sorted_buckets = TablePlan::first(unique.sorted_buckets, n),
                             .row_starts = std::move(row_starts),
                             .key_starts = std::move(key_starts)});
  if (params.combiner == Combiner::Mean) {
    run(context,
        BucketScale{.row_offsets = own_offsets, .scale = TablePlan::first(unique.scale, m)});
  }
}

/// What comes back from the devices is a bucket each, in the order of the devices.
void UniqueExchange::sort_runs(const OpContext& context, const PlannedLookup& table) const {
  const TablePlan& plan = *table.plan;
  const std::size_t asked = plan.unique.asked_rows();
  run(context, LookupSort{.rows = TablePlan::first(plan.unique.rows, asked),
                          .buckets = TablePlan::first(plan.unique.places, asked),
                          .sorted_buckets = plan.sorted_buckets.ref(),
                          .unique_rows = plan.unique_rows.ref(),
                          .run_offsets = plan.run_offsets.ref(),
                          .run_count = plan.run_count.ref(),
                          .scratch = plan.scratch.ref(),
                          .row_count = row_count_of(plan)});
}

void UniqueExchange::forward(const OpContext& context, std::span<const Shipment> tables) const {
  for (const Shipment& table : tables) give_rows(context, table);
}

void UniqueExchange::give_rows(const OpContext& context, const Shipment& table) const {
  const UniquePlan& unique = table.plan->unique;
  const TensorRef& output = table.vectors;
  const std::size_t d = output.shape[2], buckets = output.shape[0] * output.shape[1];
  const std::size_t asked = unique.asked_rows(), given = unique.given_rows();
  const TensorRef rows = table.route->pooled(output.dtype, asked, 1);
  TensorRef came = table.route->packed(output.dtype, given, 1);
  if (asked > 0) {
    run(context, EmbeddingLookup{.rows = table.plan->staged.of_keys,
                                 .row_offsets = TablePlan::first(unique.places, asked + 1),
                                 .weights = table.plan->staged.arrays.vectors,
                                 .out = rows});
  }
  context.communicator->all_to_all(rows, times(unique.asked, d), came, times(unique.given, d),
                                   *context.stream);
  came.shape = {given, d};
  run(context, EmbeddingLookup{.rows = TablePlan::first(unique.given_places, unique.keys),
                               .row_offsets = TablePlan::first(unique.row_offsets, buckets + 1),
                               .weights = came,
                               .scale = scale_of(table, buckets),
                               .out = output});
}

void UniqueExchange::backward(const OpContext& context, std::span<Shipment> tables) const {
  for (Shipment& table : tables) table.vectors = take_gradients(context, table);
}

TensorRef UniqueExchange::take_gradients(const OpContext& context, const Shipment& table) const {
  const UniquePlan& unique = table.plan->unique;
  const TensorRef& gradient = table.vectors;
  const std::size_t d = gradient.shape[2];
  const std::size_t asked = unique.asked_rows(), given = unique.given_rows();
  // A key of every sample would leave the range of float16.
  const TensorScalarType type =
      gradient.dtype == TensorScalarType::Float16 ? TensorScalarType::Float32 : gradient.dtype;
  TensorRef sums = table.route->packed(type, given, 1);
  const TensorRef came = table.route->pooled(type, asked, 1);
  sums.shape = {given, d};
  run(context,
      EmbeddingGradient{.sorted_buckets = TablePlan::first(unique.sorted_buckets, unique.keys),
                        .run_offsets = TablePlan::first(unique.run_offsets, given + 1),
                        .gradient = gradient,
                        .scale = scale_of(table, gradient.shape[0] * gradient.shape[1]),
                        .sums = sums});
  context.communicator->all_to_all(sums, times(unique.given, d), came, times(unique.asked, d),
                                   *context.stream);
  return came;
}

void UniqueExchange::reserve_request(std::size_t n) {
  gpu_.plan_stream().synchronize();
  const std::size_t size = TablePlan::with_reserve(n);
  auto next = DeviceBuffer2::create(owner_ + " requests", DeviceAllocator(gpu_.memory_resource()));
  requests_ = next->reserve({size}, kU32, "requests");
  request_keys_ = 0;
  next->allocate();
  request_arena_ = std::move(next);
  request_keys_ = size;
}

void UniqueExchange::reserve_placing(std::size_t n) {
  gpu_.plan_stream().synchronize();
  const std::size_t size = TablePlan::with_reserve(n);
  auto next =
      DeviceBuffer2::create(owner_ + " rows that come", DeviceAllocator(gpu_.memory_resource()));
  keys_ = next->reserve({size}, kU32, "keys in the order of rows that come");
  offsets_ = next->reserve({size}, kU32, "owners' runs");
  buckets_ = next->reserve({size}, kU32, "bucket of each key");
  placing_keys_ = 0;
  next->allocate();
  placing_arena_ = std::move(next);
  placing_keys_ = size;
}

std::vector<MemoryReportEntry> UniqueExchange::memory_report() const {
  std::vector<MemoryReportEntry> report;
  for (const auto& arena : {counts_arena_, request_arena_, placing_arena_}) {
    if (arena) report.insert(report.end(), arena->report().begin(), arena->report().end());
  }
  return report;
}

}  // namespace hugectr
