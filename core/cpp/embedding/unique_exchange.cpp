// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/unique_exchange.hpp"

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

}  // namespace

class UniqueExchange::Counts {
 public:
  Counts(const std::int64_t* data, std::size_t devices) : data_(data), devices_(devices) {}

  /// Whether every device could make its requests.
  bool complete() const {
    return std::all_of(data_, data_ + 2 * devices_ * devices_, [](auto n) { return n >= 0; });
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
    return static_cast<std::size_t>(data_[(owner * 2 + kind) * devices_ + asker]);
  }
  const std::int64_t* data_;
  std::size_t devices_;
};

UniqueExchange::UniqueExchange(const SparseEmbeddingHashParams& params, GPUResource& gpu,
                               std::string owner, const SlotDistribution& distribution)
    : params_(params),
      gpu_(gpu),
      owner_(std::move(owner)),
      distribution_(distribution),
      devices_(distribution.device_count()),
      rank_(distribution.rank()) {
  counts_arena_ =
      DeviceBuffer2::create(owner_ + " request counts", DeviceAllocator(gpu.memory_resource()));
  counts_ = counts_arena_->reserve({2, devices_}, TensorScalarType::Int64, "counts");
  all_counts_ =
      counts_arena_->reserve({devices_, 2, devices_}, TensorScalarType::Int64, "all counts");
  counts_arena_->allocate();
  staging_arena_ =
      DeviceBuffer2::create(owner_ + " request counts", DeviceAllocator(gpu.staging_resource()));
  staging_arena_->reserve({devices_, 2, devices_}, &counts_on_host_, "all counts");
  staging_arena_->allocate();
}

bool UniqueExchange::plan(LookupPlan& plan, const SparseTensor& csr) {
  const OpContext context = gpu_.plan_context();
  const auto row_count = static_cast<std::int64_t>(std::max<std::size_t>(plan.rows_after, 1));
  plan.unique.used = false;
  request(context, plan, row_count);
  const Counts counts = exchange_counts(context);
  if (!counts.complete() || !worth_it(counts, plan.samples / devices_)) return false;
  plan.unique.used = true;
  plan.unique.asked = counts.each([&](std::size_t r) { return counts.rows(rank_, r); });
  plan.unique.given = counts.each([&](std::size_t r) { return counts.rows(r, rank_); });
  place(context, plan, csr, counts);
  // What comes back from the devices is a bucket each, in the order of the devices.
  const std::size_t asked = plan.unique.asked_rows();
  run(context, LookupSort{.rows = LookupPlan::first(plan.unique.rows, asked),
                          .buckets = LookupPlan::first(plan.unique.places, asked),
                          .sorted_buckets = plan.sorted_buckets.ref(),
                          .unique_rows = plan.unique_rows.ref(),
                          .run_offsets = plan.run_offsets.ref(),
                          .run_count = plan.run_count.ref(),
                          .scratch = plan.scratch.ref(),
                          .row_count = row_count});
  // A failure of what came from other devices must be known before a step is given these numbers.
  context.stream->synchronize();
  ++plans_;
  return true;
}

/// Which rows each device asks of this one, and how many. Uses the plan's runs for the requests.
void UniqueExchange::request(const OpContext& context, LookupPlan& plan, std::int64_t row_count) {
  const std::size_t n = plan.own.keys.size();
  if (static_cast<std::uint64_t>(row_count) > 0xFFFFFFFFu / devices_) {
    // Request numbers would not fit 32 bits: this device says so, and all go on with pooled
    // vectors.
    std::fill_n(counts_on_host_.get_ptr(), 2 * devices_, std::int64_t{-1});
    context.stream->copy(counts_.get_ptr(), counts_on_host_.get_ptr(),
                         counts_.ref().size_in_bytes());
    return;
  }
  if (n > request_keys_ || !request_arena_) reserve_request(n);
  if (!plan.unique.owner_fits(n)) {
    context.stream->synchronize();
    plan.released->synchronize();
    plan.unique.reserve_owner(gpu_.memory_resource(), owner_ + " rows asked for", n);
  }
  const std::size_t buckets = plan.own.row_offsets.size() - 1;
  const TensorRef requests = LookupPlan::first(requests_, n);
  run(context, RequestRows{.rows = LookupPlan::first(plan.rows, n),
                           .buckets = LookupPlan::first(plan.buckets, n),
                           .requests = requests,
                           .places = LookupPlan::first(plan.unique.places, n + 1),
                           .row_count = row_count,
                           .buckets_per_device = static_cast<std::int64_t>(
                               std::max<std::size_t>(buckets / devices_, 1))});
  run(context, LookupSort{.rows = requests,
                          .buckets = plan.own.places,
                          .sorted_buckets = plan.sorted_buckets.ref(),
                          .unique_rows = plan.unique_rows.ref(),
                          .run_offsets = plan.run_offsets.ref(),
                          .run_count = plan.run_count.ref(),
                          .scratch = plan.scratch.ref(),
                          .row_count = row_count * static_cast<std::int64_t>(devices_)});
  run(context, CountRequests{.requests = LookupPlan::first(plan.unique_rows, n),
                             .run_offsets = plan.run_offsets.ref(),
                             .run_count = plan.run_count.ref(),
                             .rows = plan.unique.rows.ref(),
                             .counts = counts_.ref(),
                             .row_count = row_count});
}

UniqueExchange::Counts UniqueExchange::exchange_counts(const OpContext& context) {
  context.communicator->all_gather(counts_.ref(), all_counts_.ref(), *context.stream);
  context.stream->copy(counts_on_host_.get_ptr(), all_counts_.get_ptr(),
                       all_counts_.ref().size_in_bytes());
  context.stream->synchronize();
  return {counts_on_host_.get_ptr(), devices_};
}

/// Whether rows fit the buffers of the exchange everywhere, and move less than pooled vectors
/// would.
bool UniqueExchange::worth_it(const Counts& counts, std::size_t samples) const {
  const std::size_t batch = std::max(params_.batch_size, params_.batch_size_eval);
  // Sums of float16 gradients travel as float32.
  const std::size_t width = params_.output_type == TensorScalarType::Float16 ? 2 : 1;
  std::size_t most = 0, most_keys = 0;
  for (std::size_t device = 0; device < devices_; ++device) {
    const std::size_t self = counts.rows(device, device);
    const std::size_t asked = counts.sum(devices_, [&](auto r) { return counts.rows(device, r); });
    const std::size_t given = counts.sum(devices_, [&](auto r) { return counts.rows(r, device); });
    if (asked * width > batch * distribution_.slots_of(device) ||
        given * width > distribution_.packed_vectors(batch)) {
      return false;
    }
    most = std::max({most, asked - self, given - self});
    const std::size_t own = counts.keys(device, device);
    most_keys = std::max(
        {most_keys, counts.sum(devices_, [&](auto r) { return counts.keys(device, r); }) - own,
         counts.sum(devices_, [&](auto r) { return counts.keys(r, device); }) - own});
  }
  if (params_.exchange == ExchangeType::Unique) return true;
  // Bytes there and back of the device that moves most, and 4 a key and row at planning time. Rows
  // are gathered, and pooled by the device that asked: about one pass over the vectors more.
  const std::size_t vector = params_.embedding_vec_size * size_of(params_.output_type);
  const std::size_t pooled = (devices_ - 1) * samples * distribution_.slots_of(0) * 2 * vector;
  const std::size_t unique = most * (1 + width) * vector + 4 * (most_keys + most);
  return 4 * unique <= 3 * pooled;
}

/// Takes the runs that the owners have made of this device's keys.
void UniqueExchange::place(const OpContext& context, LookupPlan& plan, const SparseTensor& csr,
                           const Counts& counts) {
  UniquePlan& unique = plan.unique;
  const auto sent = counts.each([&](std::size_t r) { return counts.keys(rank_, r); });
  const auto taken = counts.each([&](std::size_t r) { return counts.keys(r, rank_); });
  const std::size_t asked = unique.asked_rows(), given = unique.given_rows();
  const std::size_t n = counts.sum(devices_, [&](auto r) { return taken[r]; });
  const std::size_t m = plan.samples / devices_ * params_.slot_num;
  unique.keys = n;
  if (n > placing_keys_ || !placing_arena_) reserve_placing(n);
  if (!unique.asker_fits(n, m)) {
    context.stream->synchronize();
    plan.released->synchronize();
    unique.reserve_asker(gpu_.memory_resource(), owner_ + " rows that come", n, m);
  }
  const TensorRef keys = LookupPlan::first(keys_, n), offsets = LookupPlan::first(offsets_, given);
  context.communicator->all_to_all(LookupPlan::first(plan.sorted_buckets, plan.own.keys.size()),
                                   sent, keys, taken, *context.stream);
  context.communicator->all_to_all(LookupPlan::first(plan.run_offsets, asked), unique.asked,
                                   offsets, unique.given, *context.stream);

  TensorRef row_offsets = csr.row_offsets;
  row_offsets.data = row_offsets.ptr<std::uint32_t>() + rank_ * m;
  row_offsets.shape = {m + 1};
  const TensorRef own_offsets = LookupPlan::first(unique.row_offsets, m + 1);
  const TensorRef buckets = LookupPlan::first(buckets_, n);
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
                             .run_offsets = LookupPlan::first(unique.run_offsets, given + 1),
                             .numbers = LookupPlan::first(unique.given_places, n),
                             .sorted_buckets = LookupPlan::first(unique.sorted_buckets, n),
                             .row_starts = std::move(row_starts),
                             .key_starts = std::move(key_starts)});
  if (params_.combiner == Combiner::Mean) {
    run(context,
        BucketScale{.row_offsets = own_offsets, .scale = LookupPlan::first(unique.scale, m)});
  }
}

void UniqueExchange::forward(const OpContext& context, const LookupPlan& plan,
                             const ExchangeBuffers& buffers, const TensorRef& output) const {
  const UniquePlan& unique = plan.unique;
  const std::size_t d = params_.embedding_vec_size, buckets = output.shape[0] * output.shape[1];
  const std::size_t asked = unique.asked_rows(), given = unique.given_rows();
  const TensorRef rows = distribution_.vectors(buffers.pooled, output.dtype, asked, 1);
  TensorRef came = distribution_.vectors(buffers.packed, output.dtype, given, 1);
  if (asked > 0) {
    run(context, EmbeddingLookup{.rows = LookupPlan::first(unique.rows, asked),
                                 .row_offsets = LookupPlan::first(unique.places, asked + 1),
                                 .weights = plan.weights,
                                 .out = rows});
  }
  context.communicator->all_to_all(rows, times(unique.asked, d), came, times(unique.given, d),
                                   *context.stream);
  came.shape = {given, d};
  run(context, EmbeddingLookup{.rows = LookupPlan::first(unique.given_places, unique.keys),
                               .row_offsets = LookupPlan::first(unique.row_offsets, buckets + 1),
                               .weights = came,
                               .scale = params_.combiner == Combiner::Mean
                                            ? LookupPlan::first(unique.scale, buckets)
                                            : TensorRef{},
                               .out = output});
}

TensorRef UniqueExchange::backward(const OpContext& context, const LookupPlan& plan,
                                   const ExchangeBuffers& buffers,
                                   const TensorRef& gradient) const {
  const UniquePlan& unique = plan.unique;
  const std::size_t d = params_.embedding_vec_size;
  const std::size_t asked = unique.asked_rows(), given = unique.given_rows();
  // A key of every sample would leave the range of float16.
  const TensorScalarType type =
      gradient.dtype == TensorScalarType::Float16 ? TensorScalarType::Float32 : gradient.dtype;
  TensorRef sums = distribution_.vectors(buffers.packed, type, given, 1);
  const TensorRef came = distribution_.vectors(buffers.pooled, type, asked, 1);
  sums.shape = {given, d};
  run(context,
      EmbeddingGradient{
          .sorted_buckets = LookupPlan::first(unique.sorted_buckets, unique.keys),
          .run_offsets = LookupPlan::first(unique.run_offsets, given + 1),
          .gradient = gradient,
          .scale = params_.combiner == Combiner::Mean
                       ? LookupPlan::first(unique.scale, gradient.shape[0] * gradient.shape[1])
                       : TensorRef{},
          .sums = sums});
  context.communicator->all_to_all(sums, times(unique.given, d), came, times(unique.asked, d),
                                   *context.stream);
  return came;
}

void UniqueExchange::reserve_request(std::size_t n) {
  gpu_.plan_stream().synchronize();
  const std::size_t size = LookupPlan::with_reserve(n);
  auto next = DeviceBuffer2::create(owner_ + " requests", DeviceAllocator(gpu_.memory_resource()));
  requests_ = next->reserve({size}, kU32, "requests");
  request_keys_ = 0;
  next->allocate();
  request_arena_ = std::move(next);
  request_keys_ = size;
}

void UniqueExchange::reserve_placing(std::size_t n) {
  gpu_.plan_stream().synchronize();
  const std::size_t size = LookupPlan::with_reserve(n);
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
