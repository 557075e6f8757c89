// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/lookup_size.hpp"

#include <algorithm>
#include <numeric>

#include "core/cpp/embedding/exchange/replica_exchange.hpp"
#include "core/cpp/embedding/exchange/row_room.hpp"
#include "core/cpp/embedding/lookup/lookup_plan.hpp"
#include "core/cpp/embedding/lookup/table_input.hpp"
#include "core/cpp/embedding/table/cache_memory.hpp"

namespace hugectr {
namespace {

std::size_t bytes_of(const std::shared_ptr<DeviceBuffer2>& arena) {
  return arena ? arena->size_in_bytes() : 0;
}

std::size_t all_keys(const BatchKeys& keys, std::size_t samples) {
  return samples * std::accumulate(keys.of_slot.begin(), keys.of_slot.end(), std::size_t{0});
}

}  // namespace

std::size_t own_keys(const Placement& placement, std::size_t rank, const BatchKeys& keys,
                     std::size_t samples) {
  const std::size_t devices = placement.device_count();
  if (placement.whole_buckets() && !placement.replicated()) {
    return samples * placement.sum_of_slots(rank, keys.of_slot);
  }
  return (all_keys(keys, samples) + devices - 1) / devices;
}

LookupSize size_of_lookup(const SparseEmbeddingHashParams& params, const Placement& placement,
                          std::size_t rank, const BatchKeys& keys,
                          const std::shared_ptr<MemoryResource>& memory) {
  const std::size_t devices = placement.device_count(), slots = placement.slots_of(rank);
  const bool may_send_rows =
      devices > 1 && params.exchange != ExchangeType::Pooled && placement.rows_may_travel();
  const bool on_all = devices > 1 && placement.replicated();
  const auto plan_bytes = [&](std::size_t samples, bool train) {
    TablePlan plan;
    const std::size_t own = own_keys(placement, rank, keys, samples);
    const std::size_t buckets = samples * slots / (on_all ? devices : 1);
    // A plan of a table that all devices have also groups the keys of the others.
    plan.allocate(memory, "", on_all && train ? all_keys(keys, samples) : own, buckets,
                  train || params.memory.tiered(), train && params.life.admit_after > 1);
    if (!params.pooled()) plan.positions.reserve(memory, "", samples * params.buckets_per_sample());
    if (train && params.life.timed()) plan.allocate_times(memory, "", samples);
    if (slots > 0 && !placement.takes_all(rank)) {
      plan.allocate_filter(memory, "", params.key_type(), all_keys(keys, samples), samples * slots,
                           train && may_send_rows);
    }
    if (train && may_send_rows) {
      if (slots > 0) plan.unique.reserve_owner(memory, "", own);
      plan.unique.reserve_asker(memory, "", all_keys(keys, samples) / devices,
                                samples / devices * params.buckets_per_sample());
    }
    JoinedKeys joined;
    if (keys.joined) {
      joined.allocate(memory, "", params.key_type(), all_keys(keys, samples),
                      samples * params.slot_num);
    }
    std::size_t sums = 0;
    if (on_all) plan.replica.reserve_offsets(memory, "", buckets);
    if (train && on_all) {
      plan.replica.reserve(memory, "", own);
      sums = ReplicaExchange::size_of_plan(params, devices, all_keys(keys, samples));
    }
    return bytes_of(plan.arena) + bytes_of(plan.filter_arena) + bytes_of(plan.positions.arena()) +
           bytes_of(plan.unique.owner_arena) + bytes_of(plan.unique.asker_arena) +
           bytes_of(plan.replica.arena) + bytes_of(plan.replica.offsets_arena) + sums +
           bytes_of(joined.arena()) + bytes_of(plan.times_arena);
  };
  LookupSize size;
  constexpr std::size_t kTrainPlans = 2;  // one that trains, one that is made
  if (params.batch_size > 0) size.train_plans = kTrainPlans * plan_bytes(params.batch_size, true);
  if (keys.evaluates) size.eval_plan = plan_bytes(params.batch_size_eval, false);
  if (params.memory.tiered() && params.memory.device.value_or(0) > 0) {
    const std::size_t samples = std::max(params.batch_size, params.batch_size_eval);
    const std::size_t plans = (params.batch_size > 0 ? kTrainPlans : 0) + (keys.evaluates ? 1 : 0);
    size.staging = bytes_of_staging(memory, own_keys(placement, rank, keys, samples), plans);
  }
  const Route route(params, placement, rank, memory, "");
  size.exchange = bytes_of(route.arena());
  if (on_all && params.batch_size > 0) {
    size.exchange += ReplicaExchange::size(params, all_keys(keys, params.batch_size));
  }
  if (may_send_rows && params.batch_size > 0) {
    // Of all tables of a group together (UniqueExchange): requests of own keys, and where those of
    // the device's samples come.
    const std::size_t own = own_keys(placement, rank, keys, params.batch_size);
    const std::size_t come = all_keys(keys, params.batch_size) / devices;
    size.exchange +=
        sizeof(std::uint32_t) * (TablePlan::with_reserve(own) + 3 * TablePlan::with_reserve(come));
    const auto [asked, given] = RowRoom::most_rows(route, own, come);
    if (!RowRoom::fits_route(route, asked, given)) {
      size.exchange += RowRoom::larger(route, nullptr, memory, "", asked, given)->size_in_bytes();
    }
  }
  return size;
}

}  // namespace hugectr
