// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/cpp/embedding/exchange/row_relay.hpp"
#include "core/cpp/embedding/exchange/unique_exchange.hpp"

/// Memory of the exchange of distinct rows.
namespace hugectr {
namespace {

constexpr auto kU32 = TensorScalarType::UInt32;

}  // namespace

/// Memory for the vectors of a plan, where that of pooled ones is too small.
void UniqueExchange::make_room(const PlannedLookup& table) {
  const Route& route = *table.route;
  UniquePlan& unique = table.plan->unique;
  std::shared_ptr<const RowRoom>& latest = rooms_[&route];
  const std::size_t asked = unique.asked_rows(), given = unique.given_rows();
  std::shared_ptr<const RowRoom> room;
  if (!RowRoom::fits_route(route, asked, given)) {
    if (!latest || !latest->fits(asked, given)) {
      latest = RowRoom::larger(route, latest.get(), gpu_.memory_resource(), owner_, asked, given);
    }
    room = latest;
  }
  if (unique.room == room) return;
  // The step of the slot's former plan may be on its way in the memory that goes here.
  if (unique.room) table.released->synchronize();
  unique.room = std::move(room);
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
  if (relay_) {
    const std::vector<MemoryReportEntry> of_relay = relay_->memory_report();
    report.insert(report.end(), of_relay.begin(), of_relay.end());
  }
  for (const auto& [route, room] : rooms_) {
    if (room) report.insert(report.end(), room->report().begin(), room->report().end());
  }
  return report;
}

}  // namespace hugectr
