// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/lookup_group.hpp"

#include <exception>

#include "core/cpp/base/log.hpp"
#include "core/cpp/embedding/lookup/device_lookup.hpp"

namespace hugectr {
namespace {

void check_life(const std::string& name, const RowLife& life) {
  HCTR_CHECK(life.max_rows <= std::uint64_t{1} << 48, "embedding '", name, "': max_rows ",
             life.max_rows, " is above 2^48");
  const bool makes_room = life.evict == Eviction::Lru || life.evict == Eviction::Lfu;
  HCTR_CHECK(!makes_room || life.max_rows > 0, "embedding '", name,
             "': evict says which rows make room, and max_rows for how many there is some: give it "
             "one");
  HCTR_CHECK((life.ttl > 0) == (life.evict == Eviction::Ttl), "embedding '", name, "': ttl ",
             life.ttl, " goes with evict ttl, and with no other");
  HCTR_CHECK(!life.timed() || life.evict == Eviction::Ttl, "embedding '", name, "': ttl_column '",
             life.ttl_column, "' goes with evict ttl, and with no other");
  HCTR_CHECK(life.decay > 0.0 && life.decay <= 1.0, "embedding '", name, "': decay ", life.decay,
             " must be above 0 and at most 1");
  HCTR_CHECK(life.admit_after >= 1 && life.admit_after <= 1 << 20, "embedding '", name,
             "': admit_after ", life.admit_after, " must be 1 to 2^20");
  HCTR_CHECK(!life.keeps_scores() || (life.evict_every > 0 && life.evict_every <= kLastScoredStep),
             "embedding '", name,
             "': rows that go or are admitted need an evict_every, the steps "
             "between two looks, of at most 2^32 - 1; found ",
             life.evict_every);
}

void check_params(const SparseEmbeddingHashParams& params, std::size_t device_count) {
  const std::string& name = params.name;
  check_life(name, params.life);
  const PlacementKind kind = params.placement_kind();
  const bool on_several = kind == PlacementKind::Replicated || kind == PlacementKind::ByColumn ||
                          kind == PlacementKind::Hybrid;
  HCTR_CHECK(!on_several || (params.life.max_rows == 0 && !params.life.keeps_scores()),
             "embedding '", name,
             "' has rows that come and go (max_rows, evict, ttl, admit_after) and a placement that "
             "keeps rows on several devices: place it by key, by slot or on one device");
  HCTR_CHECK(params.slot_num >= 1, "embedding '", name, "' needs at least one slot");
  HCTR_CHECK(params.embedding_vec_size >= 1 && params.embedding_vec_size <= 1024, "embedding '",
             name, "' has embedding_vec_size ", params.embedding_vec_size,
             ", allowed are 1 to 1024");
  HCTR_CHECK(params.slot_size_array.empty() || params.slot_size_array.size() == params.slot_num,
             "embedding '", name, "' has ", params.slot_num, " slots and a slot_size_array of ",
             params.slot_size_array.size(), ": give one size a slot, or none");
  HCTR_CHECK(params.vector_type == TensorScalarType::Float32 ||
                 params.vector_type == TensorScalarType::BFloat16,
             "embedding '", name, "' has vector_type ", to_string(params.vector_type),
             ", allowed are float32 and bfloat16");
  const TensorScalarType type = params.output_type;
  HCTR_CHECK(type == TensorScalarType::Float32 || type == TensorScalarType::Float16 ||
                 type == TensorScalarType::BFloat16,
             "embedding '", name, "' has output_type ", to_string(type),
             ", allowed are float32, float16 and bfloat16");
  HCTR_CHECK(params.wire != WireType::Float32 || type == TensorScalarType::Float32, "embedding '",
             name, "' has wire float32, and its vectors are made in ", to_string(type),
             ": leave wire out, or choose one of no more bits");
  HCTR_CHECK(params.batch_size % device_count == 0 && params.batch_size_eval % device_count == 0,
             "embedding '", name, "': batch sizes ", params.batch_size, " and ",
             params.batch_size_eval, " must be multiples of the ", device_count, " devices");
  HCTR_CHECK(
      params.micro_batches >= 1 && params.batch_size % (device_count * params.micro_batches) == 0,
      "embedding '", name, "': batch size ", params.batch_size, " must be a multiple of ",
      params.micro_batches, " micro-batches on each of the ", device_count, " devices");
  HCTR_CHECK(params.placement_kind() != PlacementKind::Hybrid || params.identity() == Identity::Key,
             "embedding '", name,
             "' tells rows apart by slot, and its frequent keys have none: "
             "place it otherwise, or let slots share rows");
  if (!params.pooled()) {
    HCTR_CHECK(params.positions.size() == params.slot_num, "embedding '", name, "' has ",
               params.slot_num, " slots and positions of ", params.positions.size(),
               ": give one number a slot");
    HCTR_CHECK(params.identity() == Identity::Key || params.slot_num == 1, "embedding '", name,
               "' tells rows apart by slot, and its ", params.slot_num,
               " slots are not pooled (combiner concat): give each slot an input and a table of "
               "its own, or let slots share rows (DistributedSlotSparseEmbeddingHash)");
    HCTR_CHECK(params.placement_kind() != PlacementKind::BySlot, "embedding '", name,
               "' is not pooled (combiner concat), so that it can not be placed by slot; place it "
               "by key");
  }
  HCTR_CHECK(params.identity() == Identity::SlotAndKey || params.slot_num == 1 ||
                 params.placement_kind() != PlacementKind::BySlot,
             "embedding '", name, "': a key is one row in all of its ", params.slot_num,
             " slots, so that it can not be placed by slot; place it by key");
}

}  // namespace

bool may_travel_together(const SparseEmbeddingHashParams& a, const SparseEmbeddingHashParams& b) {
  return a.i64_keys == b.i64_keys && a.output_type == b.output_type && a.wire == b.wire &&
         a.micro_batches == b.micro_batches && a.opt_params.optimizer == b.opt_params.optimizer &&
         a.opt_params.update_type == b.opt_params.update_type;
}

LookupGroup::LookupGroup(const std::vector<SparseEmbeddingHashParams>& tables,
                         std::shared_ptr<ResourceManager> resources) {
  HCTR_CHECK(!tables.empty(), "a lookup group needs a table");
  for (const SparseEmbeddingHashParams& params : tables) {
    check_params(params, resources->get_global_gpu_count());
    tables_.push_back(std::make_unique<ShardedTable>(params, resources));
  }
  for (std::size_t id = 0; id < resources->get_local_gpu_count(); ++id) {
    devices_.push_back(std::make_unique<DeviceLookup>(tables_, resources->get_local_gpu(id)));
  }
}

LookupGroup::~LookupGroup() {
  for (const auto& device : devices_) {
    try {
      device->gpu().plan_stream().synchronize();
    } catch (const std::exception& e) {
      log(LogLevel::Warning, concat(device->owner(), ": ", e.what()));
    }
  }
}

void LookupGroup::plan(std::size_t local_id, std::span<const SparseTensor> batch, PlanSlot slot,
                       bool train) {
  devices_.at(local_id)->plan(batch, slot, train);
}

void LookupGroup::take_times(std::size_t local_id, std::span<const SparseTensor> times,
                             PlanSlot slot) {
  devices_.at(local_id)->take_times(times, slot);
}

void LookupGroup::begin_plan(std::size_t local_id, std::span<const SparseTensor> batch,
                             PlanSlot slot, bool train) {
  devices_.at(local_id)->begin_plan(batch, slot, train);
}

void LookupGroup::finish_plan(std::size_t local_id, PlanSlot slot,
                              const std::function<void()>& check) {
  devices_.at(local_id)->finish_plan(slot, check);
}

bool LookupGroup::has_room(std::size_t local_id, PlanSlot slot) const {
  return devices_.at(local_id)->has_room(slot);
}

void LookupGroup::submit_plan(std::size_t local_id, PlanSlot slot) {
  devices_.at(local_id)->submit_plan(slot);
}

void LookupGroup::confirm_plan(std::size_t local_id, PlanSlot slot,
                               const std::function<void()>& check) {
  devices_.at(local_id)->confirm_plan(slot, check);
}

void LookupGroup::make_room_for_next(std::size_t local_id, PlanSlot slot) {
  devices_.at(local_id)->make_room_for_next(slot);
}

void LookupGroup::wait_for_slot(std::size_t local_id, PlanSlot slot) {
  devices_.at(local_id)->wait_for_slot(slot);
}

void LookupGroup::forward(std::size_t local_id, PlanSlot slot, std::span<const TensorRef> outputs,
                          const TensorRef& step, bool beside, MicroBatch part) {
  devices_.at(local_id)->forward(slot, outputs, step, beside, part);
}

void LookupGroup::send_gradients(std::size_t local_id, PlanSlot slot,
                                 std::span<const TensorRef> gradients, const TensorRef& step,
                                 bool beside, MicroBatch part) {
  devices_.at(local_id)->send_gradients(slot, gradients, step, beside, part);
}

void LookupGroup::backward_and_update(std::size_t local_id, PlanSlot slot,
                                      std::span<const TensorRef> gradients,
                                      const UpdateScalars& scalars, bool beside) {
  devices_.at(local_id)->backward_and_update(slot, gradients, scalars, beside);
}

void LookupGroup::bring_gradients(std::size_t local_id, PlanSlot slot,
                                  std::span<const TensorRef> gradients, const TensorRef& squares,
                                  const TensorRef& step) {
  devices_.at(local_id)->bring_gradients(slot, gradients, squares, step);
}

void LookupGroup::drop_plan(PlanSlot slot) {
  std::exception_ptr failed;
  for (auto& device : devices_) {
    try {
      device->drop_plan(slot);
    } catch (const std::exception&) {
      failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

PlanSlot LookupGroup::add_slot() {
  PlanSlot slot{};
  for (auto& device : devices_) slot = device->add_slot();
  return slot;
}

std::vector<PlannedRows> LookupGroup::planned_rows(std::size_t local_id, PlanSlot slot) const {
  return devices_.at(local_id)->planned_rows(slot);
}

void LookupGroup::sum_gradients(std::size_t local_id, PlanSlot slot,
                                std::span<const TensorRef> gradients,
                                std::span<const TensorRef> sums) {
  devices_.at(local_id)->sum_gradients(slot, gradients, sums);
}

void LookupGroup::end_plan(std::size_t local_id, PlanSlot slot) {
  devices_.at(local_id)->end_plan(slot);
}

std::vector<MemoryReportEntry> LookupGroup::memory_report() const {
  std::vector<MemoryReportEntry> report;
  for (const auto& device : devices_) device->report_memory(report);
  return report;
}

}  // namespace hugectr
