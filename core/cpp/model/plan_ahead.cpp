// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/plan_ahead.hpp"

#include <new>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"
#include "core/cpp/embedding/storage/storage_error.hpp"

namespace hugectr {

PlanAhead::PlanAhead(IDataReader& reader, ModelTables& tables, ResourceManager& resources,
                     bool drop_incomplete_batch)
    : reader_(reader),
      tables_(tables),
      resources_(resources),
      drop_incomplete_batch_(drop_incomplete_batch),
      thread_([this] {
        settle();
        {
          const std::lock_guard lock(mutex_);
          stop_ = true;
        }
        changed_.notify_all();
      }) {
  thread_.start("hctr-ahead", [this] { run(); });
}

HCTR_MAY_BE_UNWOUND void PlanAhead::run() {
  try {
    plan_when_wanted();
  }
  HCTR_CATCH_FORCED_UNWIND(ready(std::make_exception_ptr(DeviceError(kThreadWasEnded))); run())
}

void PlanAhead::plan_when_wanted() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || state_ == State::Wanted; });
    if (stop_) return;
    lock.unlock();
    ready(plan_one());
    lock.lock();
  }
}

HCTR_MAY_BE_UNWOUND std::exception_ptr PlanAhead::plan_one() {
  try {
    planned_ = plan_next();
  }
  HCTR_CATCH_FORCED_UNWIND()
  catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void PlanAhead::ready(std::exception_ptr error) {
  if (error) error_ = std::move(error);
  {
    const std::lock_guard lock(mutex_);
    state_ = State::Ready;
  }
  changed_.notify_all();
}

void PlanAhead::start() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::None) return;
    state_ = State::Wanted;
  }
  changed_.notify_all();
}

PlannedBatch PlanAhead::take() {
  start();
  settle();
  take_state();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::exchange(planned_, {});
}

PlanAhead::State PlanAhead::take_state() {
  const std::lock_guard lock(mutex_);
  return std::exchange(state_, State::None);
}

void PlanAhead::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != State::Wanted; });
}

void PlanAhead::undo() {
  settle();
  // A failed plan has left nothing behind; the error belongs to the step that asks for it. And the
  // end of the data is still the end.
  if (error_ || !planned_.batch || take_state() == State::None) return;
  const PlannedBatch planned = std::exchange(planned_, {});
  unplanned_ = planned.batch;
  next_slot_ = planned.slot;
  tables_.drop_plan(planned.slot);
}

void PlanAhead::discard() {
  undo();
  if (unplanned_) reader_.release(std::exchange(unplanned_, nullptr));
  // An error read ahead belongs to the data that is being left.
  take_state();
  error_ = nullptr;
  planned_ = {};
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
    keep_unplanned(batch, slot);
    throw;
  } catch (const std::bad_alloc&) {
    keep_unplanned(batch, slot);
    throw;
  } catch (const StorageError&) {
    keep_unplanned(batch, slot);
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

/// There is nothing wrong with the batch.
void PlanAhead::keep_unplanned(Batch* batch, PlanSlot slot) {
  unplanned_ = batch;
  tables_.drop_plan(slot);
}

}  // namespace hugectr
