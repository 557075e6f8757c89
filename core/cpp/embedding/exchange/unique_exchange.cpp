// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/unique_exchange.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/cpp/base/bytes_variable.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/exchange/request_counts.hpp"
#include "core/cpp/embedding/exchange/row_relay.hpp"
#include "core/cpp/ops/bucket_scale.hpp"
#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cpp/ops/lookup_sort.hpp"
#include "core/cpp/ops/row_requests.hpp"

namespace hugectr {
namespace {

/// Sum of the first `count` numbers.
std::size_t sum_of(const std::vector<std::size_t>& numbers, std::size_t count) {
  return std::accumulate(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count),
                         std::size_t{0});
}

/// Room for n numbers of one table, so that those of the next begin where vectors of them may.
std::size_t padded(std::size_t n) { return (n + 63) / 64 * 64; }

/// Elements begin .. begin + n - 1 of a buffer of uint32.
TensorRef part_of(TensorRef ref, std::size_t begin, std::size_t n) {
  ref.data = ref.ptr<std::uint32_t>() + begin;
  ref.shape = {n};
  ref.row_stride = 1;
  return ref;
}

/// Rows of the table that a request's number counts by.
std::int64_t row_count_of(const TablePlan& plan) {
  return static_cast<std::int64_t>(std::max<std::size_t>(plan.extent.rows, 1));
}

/// The nodes of a job whose rows go by node.
const NodeMap* nodes_of(GPUResource& gpu) {
  const Communicator* const communicator = gpu.plan_context().communicator;
  const NodeMap* const nodes = communicator ? communicator->nodes() : nullptr;
  return nodes && nodes->places() > 1 && nodes->nodes() > 1 ? nodes : nullptr;
}

RowHop hop_of(GPUResource& gpu, std::size_t devices) {
  const NodeMap* const nodes = nodes_of(gpu);
  return {nodes ? RowHop::Kind::BetweenNodes : RowHop::Kind::Direct, devices, nodes};
}

}  // namespace

/// A table whose rows travel, and its keys on their way, of each micro-batch: from who gives them
/// here to each device, and to this one.
struct UniqueExchange::Chosen {
  explicit Chosen(const PlannedLookup* lookup) : table(lookup) {}
  const PlannedLookup* table;
  TensorRef keys, offsets;  ///< in the order in which they are asked for: keys, where runs begin
  std::vector<std::size_t> sent_rows, sent, taken;
};

UniqueExchange::UniqueExchange(GPUResource& gpu, std::string owner, std::size_t devices,
                               std::size_t micro_batches, std::size_t tables)
    : gpu_(gpu),
      owner_(std::move(owner)),
      devices_(devices),
      micro_batches_(micro_batches),
      rank_(gpu.get_global_id()),
      hop_(hop_of(gpu, devices)),
      askers_(hop_.askers() * micro_batches),
      apart_bytes_(bytes_variable("HUGECTR_APART_BYTES", std::size_t{8} << 20)) {
  if (const NodeMap* const nodes = nodes_of(gpu)) {
    relay_ = std::make_unique<RowRelay>(gpu, owner_, *nodes, micro_batches, tables);
  }
  if (gpu.device().type != DeviceType::Cpu) {
    gpu.staying_stream();  // made while one thread has the device
    before_staying_ = gpu.create_event();
    stayed_ = gpu.create_event();
  }
  counts_arena_ =
      DeviceBuffer2::create(owner_ + " request counts", DeviceAllocator(gpu.memory_resource()));
  counts_ = counts_arena_->reserve({tables, 2, askers_}, TensorScalarType::Int64, "counts");
  all_counts_ =
      counts_arena_->reserve({devices_, tables, 2, askers_}, TensorScalarType::Int64, "all counts");
  counts_arena_->allocate();
  // Those of tables of which nothing can be asked of this device stay so.
  gpu.plan_stream().fill_zero(counts_.get_ptr(), counts_.get_size_in_bytes());
  staging_arena_ =
      DeviceBuffer2::create(owner_ + " request counts", DeviceAllocator(gpu.staging_resource()));
  staging_arena_->reserve({devices_, tables, 2, askers_}, &counts_on_host_, "all counts");
  staging_arena_->allocate();
}

UniqueExchange::~UniqueExchange() = default;

void UniqueExchange::plan(std::span<const PlannedLookup> tables) {
  const OpContext context = gpu_.plan_context();
  request(context, tables);
  exchange_counts(context, tables.size());
  std::vector<Chosen> chosen;
  chosen.reserve(tables.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const RequestCounts counts(counts_on_host_.get_ptr(), hop_, micro_batches_, tables.size(), t);
    TablePlan& plan = *tables[t].plan;
    UniquePlan& unique = plan.unique;
    if (!counts.complete()) refuse_if_asked_for(tables[t]);
    unique.used = counts.complete() && worth_it(counts, tables[t]);
    if (!unique.used) continue;
    Chosen& one = chosen.emplace_back(&tables[t]);
    unique.asked = one.sent_rows = counts.sent(rank_, RequestCounts::kRows);
    (relay_ ? unique.relay.came : unique.given) = counts.came(rank_, RequestCounts::kRows);
    one.sent = counts.sent(rank_, RequestCounts::kKeys);
    one.taken = counts.came(rank_, RequestCounts::kKeys);
    one.keys = plan.sorted_buckets.first(plan.own.keys.size());
    one.offsets = plan.run_offsets.first(unique.asked_rows());
  }
  if (chosen.empty()) return;
  if (relay_) relay(context, chosen);
  for (const Chosen& one : chosen) {
    one.table->plan->unique.keys = sum_of(one.taken, one.taken.size());
    make_room(*one.table);
  }
  place(context, chosen);
  sort_runs(context, chosen);
  // A failure of what came from other devices must be known before a step is given these numbers.
  context.stream->synchronize();
}

/// Which rows each device asks of this one, and how many. Uses the plans' runs for the requests.
void UniqueExchange::request(const OpContext& context, std::span<const PlannedLookup> tables) {
  std::vector<RequestRows> requests;
  std::vector<LookupSort> sorts;
  std::vector<CountRequests> counts;
  requests.reserve(tables.size());
  sorts.reserve(tables.size());
  counts.reserve(tables.size());
  const std::size_t width = 2 * askers_;
  std::size_t keys = 0;
  for (const PlannedLookup& table : tables) keys += padded(table.plan->key_count());
  if (keys > request_keys_ || !request_arena_) reserve_request(keys);
  std::size_t begin = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    TablePlan& plan = *tables[t].plan;
    if (tables[t].route->own_slots() == 0) continue;  // nothing can be asked of this device
    const std::size_t n = plan.key_count();
    const std::int64_t row_count = row_count_of(plan);
    TensorRef own_counts = counts_.ref();
    own_counts.data = own_counts.ptr<std::int64_t>() + t * width;
    own_counts.shape = {2, askers_};
    own_counts.row_stride = askers_;
    if (static_cast<std::uint64_t>(row_count) > 0xFFFFFFFFu / askers_) {
      // Request numbers would not fit 32 bits: this device says so, and all go on with pooled
      // vectors.
      std::int64_t* const none = counts_on_host_.get_ptr() + t * width;
      std::fill_n(none, width, std::int64_t{-1});
      context.stream->copy(own_counts.data, none, own_counts.size_in_bytes());
      continue;
    }
    if (!plan.unique.owner_fits(n)) {
      context.stream->synchronize();
      tables[t].released->synchronize();
      plan.unique.reserve_owner(gpu_.memory_resource(), owner_ + " rows asked for", n);
    }
    const TensorRef own_requests = part_of(requests_.ref(), begin, n);
    begin += padded(n);
    requests.push_back({.rows = plan.key_rows(),
                        .buckets = plan.key_buckets(),
                        .requests = own_requests,
                        .places = plan.unique.places.first(n + 1),
                        .asker_of_device = relay_ ? hop_.numbers() : std::vector<std::int64_t>{},
                        .row_count = row_count,
                        .buckets_per_part = static_cast<std::int64_t>(std::max<std::size_t>(
                            plan.bucket_count() / devices_ / micro_batches_, 1)),
                        .askers = static_cast<std::int64_t>(hop_.askers()),
                        .micro_batches = static_cast<std::int64_t>(micro_batches_)});
    sorts.push_back(
        {.rows = own_requests,
         .buckets = plan.own.places.empty() ? plan.unique.places.first(n) : plan.own.places,
         .sorted_buckets = plan.sorted_buckets.ref(),
         .unique_rows = plan.unique_rows.ref(),
         .run_offsets = plan.run_offsets.ref(),
         .run_count = plan.run_count.ref(),
         .scratch = plan.scratch.ref(),
         .row_count = row_count * static_cast<std::int64_t>(askers_)});
    counts.push_back({.requests = plan.unique_rows.first(n),
                      .run_offsets = plan.run_offsets.ref(),
                      .run_count = plan.run_count.ref(),
                      .rows = plan.unique.rows.ref(),
                      .counts = own_counts,
                      .row_count = row_count});
  }
  run_several(context, std::move(requests));
  run_several(context, std::move(sorts));
  run_several(context, std::move(counts));
}

void UniqueExchange::exchange_counts(const OpContext& context, std::size_t tables) {
  TensorRef own = counts_.ref(), all = all_counts_.ref();
  own.shape = {tables, 2, askers_};
  all.shape = {devices_, tables, 2, askers_};
  all.row_stride = own.size();
  context.communicator->all_gather(own, all, *context.stream);
  context.stream->copy(counts_on_host_.get_ptr(), all.data, all.size_in_bytes());
  context.stream->synchronize();
}

/// Whether rows move less than pooled vectors would.
bool UniqueExchange::worth_it(const RequestCounts& counts, const PlannedLookup& table) const {
  const Route& route = *table.route;
  const SparseEmbeddingHashParams& params = route.params();
  if (params.exchange == ExchangeType::Unique) return true;
  const std::size_t samples = table.plan->samples / devices_;
  std::size_t most = 0, most_keys = 0;
  for (std::size_t device = 0; device < devices_; ++device) {
    most = std::max(most, counts.moved(device, RequestCounts::kRows));
    most_keys = std::max(most_keys, counts.moved(device, RequestCounts::kKeys));
  }
  // Bytes there and back of the device that moves most, and 4 a key and row at planning time. Rows
  // are gathered, and pooled by the device that asked: about one pass over the vectors more.
  const std::size_t forward = RowRoom::vector_bytes(params, params.output_type);
  const std::size_t back = RowRoom::vector_bytes(params, sum_type(params, params.output_type));
  const std::size_t pooled =
      (devices_ - 1) * samples * route.placement().most_slots() * 2 * forward;
  const std::size_t unique = most * (forward + back) + 4 * (most_keys + most);
  return 4 * unique <= 3 * pooled;
}

/// The counts of some device say that it can not number requests: all devices see that.
void UniqueExchange::refuse_if_asked_for(const PlannedLookup& table) const {
  const SparseEmbeddingHashParams& params = table.route->params();
  HCTR_CHECK(params.exchange != ExchangeType::Unique, "embedding '", params.name,
             "': exchange 'unique' numbers what devices ask each other for with 32 bits, and a "
             "device has more than 2^32 / ",
             askers_, " rows: use exchange 'auto' or 'pooled', or more devices");
}

/// What the owners have made of their keys goes to nodes, which make it anew for their devices.
void UniqueExchange::relay(const OpContext& context, std::span<Chosen> chosen) {
  std::vector<RowRelay::Table> tables;
  for (const Chosen& one : chosen) {
    tables.push_back({.lookup = one.table,
                      .keys = one.keys,
                      .offsets = one.offsets,
                      .sent_keys = one.sent,
                      .came_keys = one.taken,
                      .sent_rows = one.sent_rows});
  }
  relay_->plan(context, tables);
  for (std::size_t t = 0; t < chosen.size(); ++t) {
    Chosen& one = chosen[t];
    UniquePlan& unique = one.table->plan->unique;
    unique.given = std::move(tables[t].given_rows);
    one.keys = tables[t].handed_keys;
    one.offsets = tables[t].handed_offsets;
    one.sent_rows = unique.relay.handed;
    one.sent = std::move(tables[t].handed_key_counts);
    one.taken = std::move(tables[t].given_keys);
  }
}

/// Takes the runs that the owners have made of this device's keys.
void UniqueExchange::place(const OpContext& context, std::span<const Chosen> chosen) {
  std::vector<CollectiveCall> calls;
  std::vector<RebaseOffsets> rebased;
  std::vector<ExpandBuckets> expanded;
  std::vector<PlaceRequests> placed;
  std::vector<BucketScale> scales;
  calls.reserve(2 * micro_batches_ * chosen.size());
  rebased.reserve(chosen.size());
  expanded.reserve(chosen.size());
  placed.reserve(chosen.size());
  std::size_t keys = 0;
  for (const Chosen& one : chosen) keys += padded(one.table->plan->unique.keys);
  if (keys > placing_keys_ || !placing_arena_) reserve_placing(keys);
  std::size_t begin = 0;
  for (const Chosen& one : chosen) {
    const SparseEmbeddingHashParams& params = one.table->route->params();
    TablePlan& plan = *one.table->plan;
    UniquePlan& unique = plan.unique;
    const std::size_t given = unique.given_rows(), n = unique.keys;
    const std::size_t m = plan.samples / devices_ * params.buckets_per_sample();
    if (!unique.asker_fits(n, m)) {
      context.stream->synchronize();
      one.table->released->synchronize();
      unique.reserve_asker(gpu_.memory_resource(), owner_ + " rows that come", n, m);
    }
    const TensorRef own_keys = part_of(keys_.ref(), begin, n);
    const TensorRef buckets = part_of(buckets_.ref(), begin, n);
    const TensorRef offsets = part_of(offsets_.ref(), begin, given);  // a row has a key
    begin += padded(n);
    send_numbers(one.keys, one.sent, own_keys, one.taken, micro_batches_, calls);
    send_numbers(one.offsets, one.sent_rows, offsets, unique.given, micro_batches_, calls);
    TensorRef row_offsets = one.table->batch->row_offsets;
    row_offsets.data = row_offsets.ptr<std::uint32_t>() + rank_ * m;
    row_offsets.shape = {m + 1};
    const TensorRef own_offsets = unique.row_offsets.first(m + 1);
    rebased.push_back({.row_offsets = row_offsets, .own_offsets = own_offsets});
    expanded.push_back({.row_offsets = own_offsets, .buckets = buckets});
    PlaceRequests& requests =
        placed.emplace_back(PlaceRequests{.offsets = offsets,
                                          .keys = own_keys,
                                          .row_offsets = row_offsets,
                                          .buckets = buckets,
                                          .run_offsets = unique.run_offsets.first(given + 1),
                                          .numbers = unique.given_places.first(n),
                                          .sorted_buckets = unique.sorted_buckets.first(n)});
    for (std::size_t part = 0; part < unique.given.size(); ++part) {
      requests.row_starts.push_back(static_cast<std::int64_t>(sum_of(unique.given, part)));
      requests.key_starts.push_back(static_cast<std::int64_t>(sum_of(one.taken, part)));
    }
    if (params.combiner == Combiner::Mean) {
      TensorRef whole = one.table->bucket_offsets;
      whole.data = whole.ptr<std::uint32_t>() + rank_ * m;
      whole.shape = {m + 1};
      scales.push_back({.row_offsets = whole, .scale = unique.scale.first(m)});
    }
  }
  context.communicator->together(calls, *context.stream);
  run_several(context, std::move(rebased));
  run_several(context, std::move(expanded));
  run_several(context, std::move(placed));
  run_several(context, std::move(scales));
}

/// What comes back is a bucket each, in the order of micro-batches and devices.
void UniqueExchange::sort_runs(const OpContext& context, std::span<const Chosen> chosen) const {
  std::vector<LookupSort> sorts;
  sorts.reserve(chosen.size());
  for (const Chosen& one : chosen) {
    if (one.table->route->own_slots() == 0) continue;
    const TablePlan& plan = *one.table->plan;
    const std::size_t asked = plan.unique.asked_rows();
    sorts.push_back({.rows = plan.unique.rows.first(asked),
                     .buckets = plan.unique.places.first(asked),
                     .sorted_buckets = plan.sorted_buckets.ref(),
                     .unique_rows = plan.unique_rows.ref(),
                     .run_offsets = plan.run_offsets.ref(),
                     .run_count = plan.run_count.ref(),
                     .scratch = plan.scratch.ref(),
                     .row_count = row_count_of(plan)});
  }
  run_several(context, std::move(sorts));
}

}  // namespace hugectr
