// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/model/model_tables.hpp"
#include "core/cpp/model/stage_clock.hpp"

namespace hugectr {

/// A training batch whose rows are known: what a step consumes.
struct PlannedBatch {
  Batch* batch = nullptr;  ///< nullptr at the end of the data
  PlanSlot slot = PlanSlot::Train0;
};

/// Stage 2b: takes the next training batch from the reader and plans every table for it, one
/// batch ahead of the step, on a thread and streams of its own.
class PlanAhead {
 public:
  PlanAhead(IDataReader& reader, ModelTables& tables, ResourceManager& resources,
            bool drop_incomplete_batch);
  /// Starts on the next batch unless one is under way or ready. Needs neither memory nor a thread:
  /// it can not fail between two batches.
  void start() noexcept;
  /// The next planned batch. An error of the reader or of a plan is rethrown here, before the batch
  /// trains; the tables are as before it. After OutOfMemory or StorageError the next call tries
  /// the same batch again; with another error, which is the batch's own, it has
  /// been given back.
  PlannedBatch take();
  /// Takes back what a step that failed was given. Its batch does not train, but what the step had
  /// queued before it failed may have updated tables of several devices: go on from a checkpoint.
  void give_up(const PlannedBatch& planned);
  /// Waits until nothing is running; what is ready stays ready.
  void settle();
  /// Takes a ready plan back, so that tables hold trained rows only; its batch is planned anew by
  /// the next start(). Call before tables are changed from outside.
  void undo();
  /// undo(), and gives the batch back to the reader: before the source changes.
  void discard();
  /// Seconds the plans since the last call took on the plan stream of the first device.
  double take_seconds();

 private:
  /// Of the pending plan. `Ready` is a batch, the end of the data, or an error.
  enum class State { None, Wanted, Ready };
  /// Plans until the object goes, even when a plan has the thread ended: take() counts on it.
  void run();
  void plan_when_wanted();
  /// Returns the error, if any.
  std::exception_ptr plan_one();
  void ready(std::exception_ptr error);
  /// Nothing is pending from now on; what was.
  State take_state();
  PlannedBatch plan_next();
  void plan(Batch& batch, PlanSlot slot);
  void keep_unplanned(Batch* batch, PlanSlot slot);

  IDataReader& reader_;
  ModelTables& tables_;
  ResourceManager& resources_;
  const bool drop_incomplete_batch_;
  Batch* unplanned_ = nullptr;  ///< taken from the reader, its plan was undone
  PlanSlot next_slot_ = PlanSlot::Train0;
  StageClock clock_{{"plan"}};  ///< stamped by the planning thread, read after waiting for it
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::None;
  bool stop_ = false;
  // Of the planning thread while a plan is wanted, else of the caller.
  PlannedBatch planned_;
  std::exception_ptr error_;
  ThreadGroup thread_;
};

}  // namespace hugectr
