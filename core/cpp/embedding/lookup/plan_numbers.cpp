// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/lookup/device_lookup.hpp"

/// Numbers of the rows that a plan's keys have, and of those that are new.
namespace hugectr {

void DeviceLookup::begin_numbers(LookupPlan& plan) const {
  const OpContext context = gpu_.plan_context();
  std::vector<HashGetInsert> lookups;
  lookups.reserve(parts_.size());
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (!parts_[t].holds) continue;
    const Route& route = parts_[t].route;
    TablePlan& own = plan.tables[t];
    lookups.push_back(parts_[t].rows.to_number(context, own.own.keys, own.key_buckets(),
                                               parts_[t].table.slot_of_bucket(route.rank()),
                                               own.key_rows()));
  }
  run_several(context, std::move(lookups));
  read_outcomes(context);
}

void DeviceLookup::number(LookupPlan& plan) const {
  take_numbers(plan);
  if (replica_) number_rows_of_others(plan);
  begin_rows(plan);
  check_max_rows(plan);
}

void DeviceLookup::take_numbers(const LookupPlan& plan) const {
  const OpContext context = gpu_.plan_context();
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (!parts_[t].holds) continue;
    Table& rows = parts_[t].rows;
    const TablePlan& own = plan.tables[t];
    const HashTable::Result found = rows.numbered(context);
    check_reserved(parts_[t], own, found.first_reserved);
    check_outside(parts_[t], own, found.first_outside);
    rows.make_room(found.rows);
  }
}

void DeviceLookup::begin_rows(LookupPlan& plan) const {
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    Table& rows = parts_[t].rows;
    TablePlan& own = plan.tables[t];
    own.extent = rows.begin_rows();
    own.reused = rows.reused_since(own.before);
  }
}

void DeviceLookup::read_outcomes(const OpContext& context) const {
  std::vector<CopyBlocks> outcomes;
  outcomes.reserve(parts_.size());
  for (const Part& part : parts_) {
    if (part.holds) outcomes.push_back(part.rows.outcome_to_host());
  }
  run_several(context, std::move(outcomes));
}

std::vector<ReplicaLookup> DeviceLookup::replicated(LookupPlan& plan) const {
  std::vector<ReplicaLookup> tables;
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (!parts_[t].route.of_own_samples()) continue;
    tables.push_back({&parts_[t].route, &plan.tables[t], parts_[t].rows.size(),
                      parts_[t].rows.spec().has_slots(), plan.released.get()});
  }
  return tables;
}

void DeviceLookup::number_rows_of_others(LookupPlan& plan) const {
  const OpContext context = gpu_.plan_context();
  const auto& shared = replica_->keys().share(replicated(plan));
  const auto each = [&](auto&& f) {
    std::size_t i = 0;
    for (std::size_t t = 0; t < parts_.size(); ++t) {
      if (!parts_[t].route.of_own_samples()) continue;
      const ReplicaKeys::Shared& one = shared[i++];
      if (one.rows.size() > 0) f(parts_[t], plan.tables[t], one);
    }
  };
  std::vector<HashGetInsert> lookups;
  each([&](const Part& part, TablePlan& own, const ReplicaKeys::Shared& one) {
    if (one.rows.size() > own.key_capacity) enlarge(part, plan, own, one.rows.size());
    lookups.push_back(part.rows.to_number(context, one.keys, one.buckets,
                                          part.table.slot_of_bucket(part.route.rank()), one.rows));
  });
  run_several(context, std::move(lookups));
  std::vector<CopyBlocks> outcomes;
  each([&](const Part& part, auto&, auto&) { outcomes.push_back(part.rows.outcome_to_host()); });
  run_several(context, std::move(outcomes));
  context.stream->synchronize();
  // The reserved key is that of gaps: a sample's has been refused.
  each([&](const Part& part, auto&, auto&) {
    part.rows.make_room(part.rows.numbered(context).rows);
  });
}

/// Room for n keys, with what the plan has of its own ones.
void DeviceLookup::enlarge(const Part& part, const LookupPlan& plan, TablePlan& own,
                           std::size_t n) const {
  const std::shared_ptr<DeviceBuffer2> former = own.arena;
  const TensorRef buckets = own.key_buckets(), rows = own.key_rows(), scale = own.bucket_scale;
  Stream& stream = gpu_.plan_stream();
  plan.released->synchronize();
  own.allocate(gpu_.memory_resource(), part.rows.owner() + " training plan", n, own.bucket_count(),
               true, admits(part));
  stream.copy(own.key_buckets().data, buckets.data, buckets.size_in_bytes());
  stream.copy(own.key_rows().data, rows.data, rows.size_in_bytes());
  if (!scale.empty()) {
    own.bucket_scale = own.scale.first(own.bucket_count());
    stream.copy(own.bucket_scale.data, scale.data, scale.size_in_bytes());
  }
  stream.synchronize();  // what was copied goes away
}

void DeviceLookup::check_max_rows(const LookupPlan& plan) const {
  if (bounded_.empty()) return;
  const OpContext context = gpu_.plan_context();
  const std::size_t devices = parts_.front().route.device_count(), tables = bounded_.size();
  std::vector<std::int64_t> live;
  for (const std::size_t t : bounded_) {
    live.push_back(static_cast<std::int64_t>(plan.tables[t].extent.live));
  }
  if (devices > 1) {
    std::vector<std::int64_t> all(devices * tables);
    context.stream->copy(live_rows_.get_ptr(), live.data(), tables * sizeof(std::int64_t));
    context.communicator->all_gather(live_rows_.ref(), live_rows_of_all_.ref(), *context.stream);
    context.stream->copy(all.data(), live_rows_of_all_.get_ptr(), all.size() * sizeof(all[0]));
    context.stream->synchronize();
    for (std::size_t i = 0; i < tables; ++i) {
      live[i] = 0;
      for (std::size_t device = 0; device < devices; ++device) live[i] += all[device * tables + i];
    }
  }
  for (std::size_t i = 0; i < tables; ++i) {
    const SparseEmbeddingHashParams& params = parts_[bounded_[i]].table.params();
    const auto rows = static_cast<std::uint64_t>(live[i]);
    if (rows <= params.life.max_rows) continue;
    throw OutOfMemory(
        concat("embedding '", params.name, "' needs ", rows,
               " rows and may have max_rows = ", params.life.max_rows,
               " in the whole job: raise max_rows, or say which rows may go (evict)"));
  }
}

void DeviceLookup::begin_finding(LookupPlan& plan) const {
  const OpContext context = gpu_.plan_context();
  std::vector<HashGet> lookups;
  lookups.reserve(parts_.size());
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    const Route& route = parts_[t].route;
    TablePlan& own = plan.tables[t];
    own.extent = parts_[t].rows.visible();
    if (!parts_[t].holds) continue;
    lookups.push_back(parts_[t].rows.to_find(context, own.own.keys, own.key_buckets(),
                                             parts_[t].table.slot_of_bucket(route.rank()),
                                             own.key_rows()));
  }
  run_several(context, std::move(lookups));
  read_outcomes(context);
}

void DeviceLookup::find(LookupPlan& plan) const {
  for (std::size_t t = 0; t < parts_.size(); ++t) {
    if (!parts_[t].holds) continue;
    check_reserved(parts_[t], plan.tables[t], parts_[t].rows.found().first_reserved);
  }
}

void DeviceLookup::check_reserved(const Part& part, const TablePlan& own,
                                  std::int64_t first_reserved) const {
  if (first_reserved < 0) return;
  const auto [sample, slot] = place_of_key(part, own, first_reserved);
  part.table.refuse_reserved(sample, slot);
}

void DeviceLookup::check_outside(const Part& part, const TablePlan& own,
                                 std::int64_t first_outside) const {
  if (first_outside < 0) return;
  const auto [sample, slot] = place_of_key(part, own, first_outside);
  Stream& stream = gpu_.plan_stream();
  const std::int64_t key = with_key_type(own.own.keys.dtype, [&]<class Key>(Key key) {
    stream.copy(&key, own.own.keys.ptr<Key>() + first_outside, sizeof key);
    stream.synchronize();
    return static_cast<std::int64_t>(key);
  });
  part.table.refuse_outside(key, sample, slot);
}

std::pair<std::size_t, std::size_t> DeviceLookup::place_of_key(const Part& part,
                                                               const TablePlan& own,
                                                               std::int64_t number) const {
  Stream& stream = gpu_.plan_stream();
  std::uint32_t bucket = 0;
  stream.copy(&bucket, own.buckets.ref().ptr<std::uint32_t>() + number, sizeof bucket);
  stream.synchronize();
  const Route& route = part.route;
  const std::size_t bucket_slot = route.placement().slot_of_bucket(route.rank())(bucket);
  const std::size_t first = route.of_own_samples() ? own.samples / route.device_count() : 0;
  return {route.rank() * first + bucket / route.own_slots(), part.starts.slot_of(bucket_slot)};
}

}  // namespace hugectr
