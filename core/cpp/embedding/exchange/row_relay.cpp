// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/row_relay.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/exchange/request_counts.hpp"
#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cpp/ops/lookup_sort.hpp"
#include "core/cpp/ops/row_requests.hpp"

namespace hugectr {
namespace {

constexpr auto kNumber = TensorScalarType::UInt32;

std::size_t total_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// Where what came in each micro-batch from each device begins.
std::vector<std::int64_t> starts_of(const std::vector<std::size_t>& counts) {
  std::vector<std::int64_t> starts;
  std::int64_t at = 0;
  for (const std::size_t count : counts) {
    starts.push_back(at);
    at += static_cast<std::int64_t>(count);
  }
  return starts;
}

/// Rows that came, as requests count by them.
std::int64_t rows_of(const RelayPlan& relay) {
  return static_cast<std::int64_t>(std::max<std::size_t>(relay.came_rows(), 1));
}

}  // namespace

RowRelay::RowRelay(GPUResource& gpu, std::string owner, const NodeMap& nodes,
                   std::size_t micro_batches, std::size_t tables)
    : gpu_(gpu),
      owner_(std::move(owner)),
      hop_(RowHop::Kind::InsideNode, nodes.nodes() * nodes.places(), &nodes),
      micro_batches_(micro_batches),
      rank_(gpu.get_global_id()),
      desks_(tables) {
  const Shape own{tables, 2, hop_.askers() * micro_batches_};
  const Shape all{hop_.ranks(), own[0], own[1], own[2]};
  constexpr auto kCount = TensorScalarType::Int64;
  counts_arena_ =
      DeviceBuffer2::create(owner_ + " counts by node", DeviceAllocator(gpu.memory_resource()));
  counts_ = counts_arena_->reserve(own, kCount, "counts");
  all_counts_ = counts_arena_->reserve(all, kCount, "all counts");
  counts_arena_->allocate();
  staging_arena_ =
      DeviceBuffer2::create(owner_ + " counts by node", DeviceAllocator(gpu.staging_resource()));
  staging_arena_->reserve(all, &counts_on_host_, "all counts");
  staging_arena_->allocate();
}

void RowRelay::plan(const OpContext& context, std::span<Table> tables) {
  for (std::size_t t = 0; t < tables.size(); ++t) make_room(tables[t], desks_[t]);
  take(context, tables);
  request(context, tables);
  exchange_counts(context, tables.size());
  std::vector<LookupSort> sorts;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const Desk& desk = desks_[t];
    hand_on(tables[t], desk, t, tables.size());
    const RelayPlan& relay = tables[t].lookup->plan->unique.relay;
    const std::size_t n = relay.handed_rows();
    sorts.push_back({.rows = relay.rows.first(n),
                     .buckets = relay.places.first(n),
                     .sorted_buckets = relay.order.ref(),
                     .unique_rows = desk.requested.ref(),
                     .run_offsets = relay.run_offsets.ref(),
                     .run_count = desk.run_count.ref(),
                     .scratch = desk.scratch.ref(),
                     .row_count = rows_of(relay)});
  }
  run_several(context, std::move(sorts));
}

void RowRelay::make_room(const Table& table, Desk& desk) {
  RelayPlan& relay = table.lookup->plan->unique.relay;
  const std::size_t n = total_of(table.came_keys), batch = table.lookup->batch->nnz;
  if (!relay.fits(n)) {
    gpu_.plan_stream().synchronize();
    table.lookup->released->synchronize();
    relay.reserve(gpu_.memory_resource(), owner_ + " rows to hand on", n);
  }
  if (desk.arena && n <= desk.keys && batch <= desk.batch_keys) return;
  gpu_.plan_stream().synchronize();
  const std::size_t size = std::max(desk.keys, TablePlan::with_reserve(n));
  const std::size_t all = std::max(desk.batch_keys, TablePlan::with_reserve(batch));
  auto next =
      DeviceBuffer2::create(owner_ + " keys of a node", DeviceAllocator(gpu_.memory_resource()));
  desk.keys = desk.batch_keys = 0;
  const auto words = [&](std::size_t count, const char* name) {
    return next->reserve({count}, kNumber, name);
  };
  desk.came_keys = words(size, "keys in the order of rows that came");
  desk.offsets = words(size, "owners' runs");
  desk.runs = words(size + 1, "runs of rows that came");
  desk.numbers = words(size, "row of each key");
  desk.unused = words(size, "places");
  desk.requests = words(size, "requests");
  desk.sorted_keys = words(size, "keys by request");
  desk.requested = words(size, "distinct requests");
  desk.run_offsets = words(size + 1, "runs of requests");
  desk.run_count = next->reserve({1}, TensorScalarType::Int64, "count of requests");
  desk.scratch = next->reserve({2 * size}, TensorScalarType::UInt64, "sort scratch");
  desk.buckets = words(all, "buckets of the batch");
  desk.counting = words(size + 1, "0, 1, 2, ...");
  next->allocate();
  desk.arena = std::move(next);
  std::vector<std::uint32_t> counting(size + 1);
  std::iota(counting.begin(), counting.end(), 0u);
  gpu_.plan_stream().copy(desk.counting.get_ptr(), counting.data(),
                          counting.size() * sizeof(std::uint32_t));
  gpu_.plan_stream().synchronize();  // `counting` goes
  desk.keys = size;
  desk.batch_keys = all;
}

/// The keys of this node's samples whose rows come here, and which row is whose.
void RowRelay::take(const OpContext& context, std::span<Table> tables) {
  std::vector<CollectiveCall> calls;
  std::vector<ExpandBuckets> expanded;
  std::vector<PlaceRequests> placed;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const Table& table = tables[t];
    const Desk& desk = desks_[t];
    const RelayPlan& relay = table.lookup->plan->unique.relay;
    const std::size_t n = total_of(table.came_keys), rows = relay.came_rows();
    send_numbers(table.keys, table.sent_keys, desk.came_keys.ref(), table.came_keys, micro_batches_,
                 calls);
    send_numbers(table.offsets, table.sent_rows, desk.offsets.ref(), relay.came, micro_batches_,
                 calls);
    const SparseTensor& batch = *table.lookup->batch;
    expanded.push_back(
        {.row_offsets = batch.row_offsets, .buckets = desk.buckets.first(batch.nnz)});
    // A key here is its place in what came.
    const TensorRef places = desk.counting.first(n);
    placed.push_back({.offsets = desk.offsets.first(rows),
                      .keys = places,
                      .row_offsets = desk.counting.first(1),
                      .buckets = places,
                      .run_offsets = desk.runs.first(rows + 1),
                      .numbers = desk.numbers.first(n),
                      .sorted_buckets = desk.unused.first(n),
                      .row_starts = starts_of(relay.came),
                      .key_starts = starts_of(table.came_keys)});
  }
  context.communicator->together(calls, *context.stream);
  run_several(context, std::move(expanded));
  run_several(context, std::move(placed));
}

/// What the devices of the node ask of these rows.
void RowRelay::request(const OpContext& context, std::span<Table> tables) {
  std::vector<RequestRows> requests;
  std::vector<LookupSort> sorts;
  std::vector<CountRequests> counts;
  const std::size_t askers = hop_.askers() * micro_batches_;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const Desk& desk = desks_[t];
    const RelayPlan& relay = tables[t].lookup->plan->unique.relay;
    const SparseTensor& batch = *tables[t].lookup->batch;
    const std::size_t n = total_of(tables[t].came_keys);
    const std::size_t buckets = batch.row_offsets.size() - 1;
    const TensorRef keys = desk.came_keys.first(n);
    TensorRef own_counts = counts_.ref();
    own_counts.data = own_counts.ptr<std::int64_t>() + t * 2 * askers;
    own_counts.shape = {2, askers};
    own_counts.row_stride = askers;
    requests.push_back({.rows = desk.numbers.first(n),
                        .buckets = desk.buckets.first(batch.nnz),
                        .keys = keys,
                        .requests = desk.requests.first(n),
                        .places = relay.places.first(n + 1),
                        .asker_of_device = hop_.numbers(),
                        .row_count = rows_of(relay),
                        .buckets_per_part = static_cast<std::int64_t>(
                            std::max<std::size_t>(buckets / hop_.ranks() / micro_batches_, 1)),
                        .askers = static_cast<std::int64_t>(hop_.askers()),
                        .micro_batches = static_cast<std::int64_t>(micro_batches_)});
    sorts.push_back({.rows = desk.requests.first(n),
                     .buckets = keys,
                     .sorted_buckets = desk.sorted_keys.ref(),
                     .unique_rows = desk.requested.ref(),
                     .run_offsets = desk.run_offsets.ref(),
                     .run_count = desk.run_count.ref(),
                     .scratch = desk.scratch.ref(),
                     .row_count = rows_of(relay) * static_cast<std::int64_t>(askers)});
    counts.push_back({.requests = desk.requested.first(n),
                      .run_offsets = desk.run_offsets.ref(),
                      .run_count = desk.run_count.ref(),
                      .rows = relay.rows.ref(),
                      .counts = own_counts,
                      .row_count = rows_of(relay)});
  }
  run_several(context, std::move(requests));
  run_several(context, std::move(sorts));
  run_several(context, std::move(counts));
}

void RowRelay::exchange_counts(const OpContext& context, std::size_t tables) {
  const std::size_t askers = hop_.askers() * micro_batches_;
  TensorRef own = counts_.ref(), all = all_counts_.ref();
  own.shape = {tables, 2, askers};
  all.shape = {hop_.ranks(), tables, 2, askers};
  all.row_stride = own.size();
  context.communicator->all_gather(own, all, *context.stream);
  context.stream->copy(counts_on_host_.get_ptr(), all.data, all.size_in_bytes());
  context.stream->synchronize();
}

void RowRelay::hand_on(Table& table, const Desk& desk, std::size_t number, std::size_t tables) {
  const RequestCounts counts(counts_on_host_.get_ptr(), hop_, micro_batches_, tables, number);
  RelayPlan& relay = table.lookup->plan->unique.relay;
  relay.handed = counts.sent(rank_, RequestCounts::kRows);
  table.handed_key_counts = counts.sent(rank_, RequestCounts::kKeys);
  table.given_rows = counts.came(rank_, RequestCounts::kRows);
  table.given_keys = counts.came(rank_, RequestCounts::kKeys);
  table.handed_keys = desk.sorted_keys.first(total_of(table.came_keys));
  table.handed_offsets = desk.run_offsets.first(relay.handed_rows());
  const Route& route = *table.lookup->route;
  std::shared_ptr<const RowRoom>& latest = rooms_[&route];
  if (!latest || !latest->fits(relay.handed_rows(), relay.came_rows())) {
    latest = RowRoom::larger(route, latest.get(), gpu_.memory_resource(), owner_ + " of a node",
                             relay.handed_rows(), relay.came_rows());
  }
  if (relay.room == latest) return;
  if (relay.room) table.lookup->released->synchronize();  // a step on its way may use it
  relay.room = latest;
}

std::vector<MemoryReportEntry> RowRelay::memory_report() const {
  std::vector<MemoryReportEntry> report = counts_arena_->report();
  const auto append = [&](const std::vector<MemoryReportEntry>& part) {
    report.insert(report.end(), part.begin(), part.end());
  };
  for (const Desk& desk : desks_) {
    if (desk.arena) append(desk.arena->report());
  }
  for (const auto& [route, room] : rooms_) {
    if (room) append(room->report());
  }
  return report;
}

}  // namespace hugectr
