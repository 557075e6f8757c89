// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/plan_ahead.hpp"

namespace hugectr {

PlanAhead::PlanAhead(IDataReader& reader, ModelTables& tables, ResourceManager& resources,
                     bool drop_incomplete_batch)
    : reader_(reader),
      tables_(tables),
      resources_(resources),
      drop_incomplete_batch_(drop_incomplete_batch) {}

PlanAhead::~PlanAhead() {
  if (pending_.valid()) pending_.wait();
}

void PlanAhead::start() {
  if (!pending_.valid()) pending_ = std::async(std::launch::async, [this] { return plan_next(); });
}

PlannedBatch PlanAhead::take() {
  start();
  return pending_.get();
}

void PlanAhead::settle() {
  if (pending_.valid()) pending_.wait();
}

void PlanAhead::undo() {
  if (!pending_.valid()) return;
  pending_.wait();
  PlannedBatch planned;
  try {
    planned = pending_.get();
  } catch (...) {
    // The failed plan has left nothing behind; the error belongs to the step that asks for it.
    std::promise<PlannedBatch> failed;
    failed.set_exception(std::current_exception());
    pending_ = failed.get_future();
    return;
  }
  if (!planned.batch) {  // the end of the data is still the end
    std::promise<PlannedBatch> end;
    end.set_value(planned);
    pending_ = end.get_future();
    return;
  }
  tables_.drop_plan(planned.slot);
  next_slot_ = planned.slot;
  unplanned_ = planned.batch;
}

void PlanAhead::discard() {
  undo();
  if (unplanned_) reader_.release(unplanned_);
  unplanned_ = nullptr;
  if (pending_.valid()) {
    // An error read ahead belongs to the data that is being left.
    try {
      pending_.get();
    } catch (...) {
    }
  }
}

void PlanAhead::give_up(const PlannedBatch& planned) {
  undo();  // the next batch is planned anew, without the rows of this one
  // Whatever was queued of the step still reads the plan and the batch.
  try {
    resources_.synchronize();
  } catch (const std::exception&) {  // the error that ended the step says more
  }
  tables_.drop_plan(planned.slot);
  reader_.release(planned.batch);
}

double PlanAhead::take_seconds() {
  settle();
  return clock_.take().front().second;
}

PlannedBatch PlanAhead::plan_next() {
  Batch* batch = unplanned_ ? unplanned_ : reader_.acquire();
  unplanned_ = nullptr;
  if (batch && drop_incomplete_batch_ && batch->samples < reader_.batch_size()) {
    reader_.release(batch);
    batch = reader_.acquire();
  }
  if (!batch) return {};
  const PlanSlot slot = next_slot_;
  try {
    plan(*batch, slot);
  } catch (const OutOfMemory&) {
    unplanned_ = batch;  // there is nothing wrong with it
    tables_.drop_plan(slot);
    throw;
  } catch (...) {
    tables_.drop_plan(slot);
    reader_.release(batch);
    throw;
  }
  next_slot_ = slot == PlanSlot::Train0 ? PlanSlot::Train1 : PlanSlot::Train0;
  return {batch, slot};
}

void PlanAhead::plan(Batch& batch, PlanSlot slot) {
  resources_.for_each_device_planning([&](std::size_t local_id) {
    DeviceBatch& part = batch.devices[local_id];
    Stream& stream = resources_.get_local_gpu(local_id).plan_stream();
    const bool timed = local_id == 0;
    stream.wait(*part.ready);
    tables_.wait_for_slot(local_id, slot);
    if (timed) clock_.begin(stream);
    tables_.plan(local_id, part.sparse, slot, true);
    if (timed) clock_.end_stage(stream);
  });
}

}  // namespace hugectr
