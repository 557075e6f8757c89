// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <future>
#include <memory>
#include <vector>

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
  ~PlanAhead();

  /// Starts on the next batch unless one is under way or ready.
  void start();
  /// The next planned batch. An error of the reader or of a plan is rethrown here, before the batch
  /// trains; the tables are as before it. After OutOfMemory the next call tries the same batch
  /// again; with another error, which is the batch's own, it has been given back.
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
  PlannedBatch plan_next();
  void plan(Batch& batch, PlanSlot slot);

  IDataReader& reader_;
  ModelTables& tables_;
  ResourceManager& resources_;
  const bool drop_incomplete_batch_;
  std::future<PlannedBatch> pending_;
  Batch* unplanned_ = nullptr;  ///< taken from the reader, its plan was undone
  PlanSlot next_slot_ = PlanSlot::Train0;
  StageClock clock_{{"plan"}};  ///< stamped by the planning thread, read after waiting for it
};

}  // namespace hugectr
