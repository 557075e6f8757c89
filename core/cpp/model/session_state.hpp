// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/make_source.hpp"
#include "core/cpp/device/tensor_view.hpp"
#include "core/cpp/embedding/storage/storage_error.hpp"
#include "core/cpp/metrics/eval_metrics.hpp"
#include "core/cpp/model/eval_tasks.hpp"
#include "core/cpp/model/loss_watch.hpp"
#include "core/cpp/model/network.hpp"
#include "core/cpp/model/non_finite_loss.hpp"
#include "core/cpp/model/plan_ahead.hpp"
#include "core/cpp/model/spec.hpp"
#include "core/cpp/model/stage_clock.hpp"
#include "core/cpp/optimizers/trained_steps.hpp"

namespace hugectr {

/// What a Session is made of, and what its parts (SessionTable, SessionNetwork, SessionReader) work
/// on. Members are destroyed in reverse order: plans before tables, tables before readers, all
/// before the devices. Owned by a shared_ptr: views keep it.
struct SessionState : std::enable_shared_from_this<SessionState> {
  SessionState(const SolverSpec& solver, const std::optional<ReaderSpec>& reader,
               const ModelSpec& model, std::shared_ptr<IProcessGroup> processes);
  SessionState(const SolverSpec& solver, const ModelSpec& model);
  ~SessionState();

  /// Makes the parts; the destructor waits for what they do already when one of them fails.
  void build(const std::optional<ReaderSpec>& reader, std::shared_ptr<IProcessGroup> processes);
  bool train();
  bool eval();
  /// Throws the InvalidArgument that says what is missing and the way out, if something is.
  void check_trains(const char* call) const;
  void check_has_reader(const char* call) const;
  /// Enqueues one training step of one device.
  void train_on(std::size_t local_id, const PlannedBatch& planned);
  /// Looks the keys of an evaluation batch up on one device: what its data can make fail.
  void plan_eval_on(std::size_t local_id, Batch& batch);
  /// Enqueues one evaluation batch of one device, after all devices have planned it.
  void eval_on(std::size_t local_id, Batch& batch);
  void find_vectors();
  /// Copies label, dense, lengths and sample weights of the batch into the network's inputs.
  void write_inputs(std::size_t local_id, const DeviceBatch& batch, bool train);
  /// Number in the global batch of a device's first sample.
  std::size_t first_sample(std::size_t local_id, bool train) const;
  StepScalars scalars_for(std::size_t local_id, const Batch& batch, bool train) const;
  /// Sums over devices of their shares of the losses of the last training (or evaluation) batch: of
  /// the weighted sum of all, then, of several, of each. Waits for the compute streams.
  std::vector<double> read_losses(bool train);
  /// Throws NonFiniteLoss when the loss of a step so far, or a dense weight, is not finite; waits
  /// for the steps. Collective.
  void check_loss();
  /// All work done, tables hold trained rows only: before anything outside a step looks at them.
  void settle();
  /// No plan is being made any more; what is planned stays.
  void wait_for_plan() const {
    if (planner) planner->settle();
  }
  /// Ends the threads that read. Collective.
  void stop_reading();
  /// A tensor of a local device that shares the whole model: streams, events and pages go with it.
  TensorView view(std::size_t local_id, const TensorRef& ref);
  std::size_t devices() const { return resources->get_local_gpu_count(); }
  /// A call under way. Refused once the program ends.
  class Call {
   public:
    explicit Call(SessionState& session) : calls_(session.calls) {
      ++calls_;
      if (!session.ended) return;
      --calls_;
      throw InvalidArgument("the program is ending, and the model with it: no more calls");
    }
    ~Call() { --calls_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    std::atomic<int>& calls_;
  };
  /// Runs f; when it fails, the other processes of the job learn the cause instead of waiting.
  template <class F>
  auto in_job(const F& f) {
    const Call call(*this);
    try {
      return f();
    } catch (const StorageError& e) {
      tell_others(e.what(), false);
      throw;
    } catch (const DataError& e) {
      if (!reads_together) tell_others(e.what(), false);
      throw;
    } catch (const NonFiniteLoss&) {  // all processes throw it
      throw;
    } catch (const CommError& e) {
      tell_others(e.what(), true);
      throw;
    } catch (const std::exception& e) {
      tell_others(cause_of(e), false);
      throw;
    }
  }
  void tell_others(const std::string& error, bool of_communication) noexcept;

  SolverSpec solver;
  ModelSpec model;
  std::shared_ptr<ResourceManager> resources;
  std::shared_ptr<const NetworkGraph> graph;
  bool has_reader = false;
  std::unique_ptr<IDataReader> train_reader;  ///< null without a reader, or when nothing trains
  std::unique_ptr<IDataReader> eval_reader;   ///< null without evaluation data
  std::unique_ptr<ModelTables> tables;
  std::vector<std::unique_ptr<Network>> networks;
  /// Of one device's networks, by table: vectors that they read, and the gradients of those; empty:
  /// there are none. A step asks for them often, and networks know them by name.
  struct TableVectors {
    std::vector<TensorRef> train, gradients, eval;
  };
  std::vector<TableVectors> vectors;      ///< one a local device
  std::unique_ptr<LossWatch> loss_watch;  ///< null when nothing trains
  std::unique_ptr<PlanAhead> planner;     ///< null without a train_reader
  LearningRateScheduler scheduler;
  std::unique_ptr<EvalMetrics> metrics;
  std::vector<TaskColumns> tasks;  ///< what they are made of
  StageClock clock{{"input", "embedding_forward", "dense", "exchange_update", "embedding_update"}};
  float lr = 0.0f;
  std::int64_t step = 0;        ///< updates done
  bool reads_together = false;  ///< a damaged batch is known to all processes already
  TrainedSteps dense_steps;
  bool at_end = false, eval_at_end = false;
  std::size_t eval_samples = 0;  ///< of the last evaluation batch
  ReadPosition trained_to;       ///< behind the last batch that trained
  bool plan_when_done = false;   ///< a profile in which step and plan do not overlap
  double acquire_seconds = 0.0;
  std::atomic<int> calls{0};
  std::atomic<bool> ended{false};
};

}  // namespace hugectr
