// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/shape.hpp"
#include "core/cpp/data/make_source.hpp"
#include "core/cpp/device/op_timeline.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/model/layer_summary.hpp"
#include "core/cpp/model/learning_rate.hpp"
#include "core/cpp/model/session_network.hpp"
#include "core/cpp/model/session_reader.hpp"
#include "core/cpp/model/session_table.hpp"
#include "core/cpp/model/spec.hpp"
#include "core/cpp/optimizers/trained_steps.hpp"

namespace hugectr {

/// A compiled model on its devices: the three-stage pipeline and everything a step does. What is of
/// one part of it is done by that part: table(i), network() and reader(), which live as long as the
/// Session does and follow its rules. Here is what is of the whole.
/// One thread at a time may call it, none in a forked child of the process that made it.
///
/// A model may lack a part. Without a reader (nothing is read), a loss, or training
/// (ModelSpec::trains) all calls work that do not need it; the others throw InvalidArgument. What
/// does not train has no gradients, optimizer states or training plans, and no memory for them.
///
/// In a job of several processes each has a Session of its own, made from the same settings, and
/// makes the same calls in the same order: all but those that only look at this process's devices
/// (memory, views, timing, SessionTable::stats) are collective. Tables and tensors that are read
/// out are the local devices' part; losses and metrics are those of the job. An error of one
/// process ends the others' calls with a CommError that carries its text; the job then starts anew
/// from its last checkpoint.
class HCTR_API Session {
 public:
  /// `reader`: std::nullopt for none. `processes` connects the processes of the job; null: this is
  /// the only one.
  Session(const SolverSpec& solver, const std::optional<ReaderSpec>& reader, const ModelSpec& model,
          std::shared_ptr<IProcessGroup> processes = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::size_t num_tables() const { return tables_.size(); }
  /// By number, as in ModelSpec::embeddings.
  SessionTable& table(std::size_t index);
  SessionNetwork& network() { return network_; }
  bool has_reader() const { return reader_.has_value(); }
  SessionReader& reader();
  /// What it is made of: for who works on its parts in a way of their own (core/cpp/serving).
  const std::shared_ptr<SessionState>& state() const { return state_; }
  /// Whether train() trains: the model is to, and has a loss to train by.
  bool trains() const;

  /// One step. False at the end of the data (epoch mode), then nothing has trained. NonFiniteLoss
  /// within 20 steps after the loss was not finite (with loss scaling, after the first of several
  /// in a row), and at the end of the data; that call has trained nothing.
  bool train();
  /// One evaluation batch, added to the metrics. False at the end of the evaluation data.
  bool eval();
  /// Mean loss (regulariser included) of the last trained batch, also behind evaluations; waits for
  /// it.
  float get_current_loss();
  /// The same of every loss by the name of its layer, without its weight and the regulariser.
  std::vector<std::pair<std::string, float>> get_current_losses();
  /// Throws NonFiniteLoss when the loss of a step so far, or a dense weight, is not finite: before
  /// something is saved that nobody can go on from. Waits for the steps.
  void check_loss();
  /// Metrics over all eval() calls since the last call of this; then starts anew.
  std::vector<std::pair<std::string, double>> get_eval_metrics();

  LearningRateScheduler& learning_rate_scheduler();
  void set_learning_rate(float lr);
  float learning_rate() const;  ///< of the next step
  /// Names of the tables, or "" for the dense network.
  void set_trainable(const std::string& embedding, bool trainable);
  /// How many steps each of them was frozen in: a training that goes on from a checkpoint has them
  /// from there.
  TrainedSteps& trained_steps(const std::string& embedding);
  /// Updates done so far (the t of Adam) and a way to continue from it.
  std::int64_t step() const;
  void set_step(std::int64_t step);

  std::vector<LayerSummary> summary() const;
  /// Seconds that the first device spent in each stage since the last call, on its own clock: name,
  /// seconds. "idle" lies between steps; "plan" runs on a stream of its own beside the step;
  /// "wait_for_plan" is the time that train() waited for it. Waits for the steps submitted.
  std::vector<std::pair<std::string, double>> stage_seconds();
  /// Times every op of the first device from now on, or ends that. While it is on, steps are
  /// submitted op by op. With `alone` the next batch is planned when the step is done, so that ops
  /// of the two streams do not slow each other down.
  void set_profiling(bool on, bool alone = false);
  /// The ops since the last call; empty when profiling is off.
  std::vector<OpTime> take_op_times();
  /// Who holds how much on this process's devices, readers left out; entries of tensors that share
  /// memory overlap. Without `by_tensor` there is one for all of those, the batches of the readers
  /// are there too, and the sum is what is held.
  std::vector<MemoryReportEntry> memory_report(bool by_tensor = true) const;
  ResourceManager& resources();
  /// The model's next work waits for all that a stream of another library (NativeStream::handle)
  /// holds now: before a step overwrites what others still read, or reads what they wrote. With
  /// mixed precision, weights written through a view are rounded anew.
  void wait_for_stream(void* stream);

  /// The program ends. Waits for calls of other threads, for so many seconds, then ends the threads
  /// that read and all work on the devices; calls are refused from now on. Never throws.
  /// Collective, as SessionReader::stop(); once.
  void end(double seconds) noexcept;
  /// Ends this process's part in collectives that will not come about, because another process has
  /// failed: calls that wait throw CommError(reason). The only function for any thread at any time.
  void leave(const std::string& reason) noexcept;
  /// Whether leave() has done all of that.
  bool has_left() const noexcept { return left_; }

 private:
  std::atomic<bool> left_ = false;
  std::shared_ptr<SessionState> state_;  ///< shared with the views; forked children leave it alone
  std::vector<SessionTable> tables_;
  SessionNetwork network_;
  std::optional<SessionReader> reader_;
};

}  // namespace hugectr
