// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session.hpp"

#include <chrono>
#include <ranges>
#include <thread>
#include <utility>
#include <vector>

#include "core/cpp/base/fork.hpp"
#include "core/cpp/base/thread_group.hpp"
#include "core/cpp/model/session_state.hpp"

namespace hugectr {
namespace {

/// Gives a batch back however its evaluation ends.
struct BatchReturn {
  IDataReader& reader;
  Batch* batch;
  ~BatchReturn() { reader.release(batch); }
};

/// The last that holds a state may be a view, and who lets go of that any thread: also one that the
/// state's end would wait for.
struct EndState {
  MadeIn made_in;
  void operator()(SessionState* state) const {
    if (made_in.this_process()) delete_outside_of_groups(state);
  }
};

/// Streams of a device whose ops are timed, and their names.
std::vector<std::pair<Stream*, const char*>> timed_streams(GPUResource& gpu) {
  return {{&gpu.compute_stream(), "compute"},   {&gpu.plan_stream(), "plan"},
          {&gpu.move_stream(), "move"},         {&gpu.arrive_stream(), "arrive"},
          {&gpu.exchange_stream(), "exchange"}, {&gpu.staying_stream(), "staying"}};
}

}  // namespace

Session::Session(const SolverSpec& solver, const std::optional<ReaderSpec>& reader,
                 const ModelSpec& model, std::shared_ptr<IProcessGroup> processes)
    : state_(new SessionState(solver, reader, model, std::move(processes)), EndState()),
      network_(*state_) {
  for (std::size_t i = 0; i < state_->tables->size(); ++i) tables_.emplace_back(*state_, i);
  if (reader) reader_.emplace(*state_);
}

Session::~Session() = default;

SessionTable& Session::table(std::size_t index) {
  HCTR_CHECK(index < tables_.size(), "there is no table ", index, ": the model has ",
             tables_.size());
  return tables_[index];
}

SessionReader& Session::reader() {
  state_->check_has_reader("reader()");
  return *reader_;
}

bool Session::trains() const { return state_->graph->trains(); }

void Session::end(double seconds) noexcept {
  SessionState& s = *state_;
  if (s.ended.exchange(true)) return;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (s.calls > 0) {
    if (std::chrono::steady_clock::now() >= limit) return;  // it would be pulled from under a call
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  try {
    s.stop_reading();
    s.resources->synchronize();
  } catch (const std::exception&) {  // nobody is left to hear of a device or process that is broken
  }
}

bool Session::train() {
  if (!state_->train_reader) {
    state_->check_trains("train()");
    state_->check_has_reader("train()");
  }
  return state_->in_job([&] { return state_->train(); });
}

bool SessionState::train() {
  SessionState& s = *this;
  // A step only queues its work: what went wrong with an earlier one ends the training here.
  for (std::size_t id = 0; id < devices(); ++id) {
    GPUResource& gpu = resources->get_local_gpu(id);
    if (gpu.compute_stream().has_failed() || gpu.exchange_stream().has_failed()) {
      resources->synchronize();
    }
  }
  s.loss_watch->look(s.step);
  s.train_reader->start();
  const auto begin = std::chrono::steady_clock::now();
  const PlannedBatch planned = s.planner->take();
  s.acquire_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!planned.batch) {
    s.at_end = true;
    s.loss_watch->look_at_all(s.step);
    return false;
  }
  // The host takes as long to plan as to queue a step: both at the same time.
  // Rows that go behind this step are not to be in a plan: the next one waits for them.
  const bool evicts = s.tables->evicts_after(s.step + 1);
  if (!s.plan_when_done && !evicts) s.planner->start();
  try {
    s.resources->for_each_device([&](std::size_t id) { s.train_on(id, planned); });
  } catch (...) {
    s.planner->give_up(planned);
    throw;
  }
  ++s.step;
  for (std::size_t t = 0; t < s.tables->size(); ++t) (*s.tables)[t].trained_steps().stepped();
  s.dense_steps.stepped();
  s.trained_to = planned.batch->next;
  s.train_reader->release(planned.batch);
  if (s.plan_when_done || evicts) {
    s.resources->synchronize();
    if (evicts) s.tables->evict(s.step);
    s.planner->start();
  }
  return true;
}

bool Session::eval() {
  if (!state_->eval_reader) {
    state_->check_has_reader("eval()");
    throw InvalidArgument("eval(): the reader has no eval_source");
  }
  return state_->in_job([&] { return state_->eval(); });
}

bool SessionState::eval() {
  SessionState& s = *this;
  s.eval_reader->start();
  // A training plan under way shares the plan streams and the hash tables.
  s.wait_for_plan();
  Batch* batch = s.eval_reader->acquire();
  s.eval_at_end = batch == nullptr;
  if (!batch) return false;  // what was evaluated last still is
  s.eval_samples = batch->samples;
  const BatchReturn give_back{*s.eval_reader, batch};
  s.resources->for_each_device_planning([&](std::size_t id) { s.plan_eval_on(id, *batch); });
  s.resources->for_each_device([&](std::size_t id) { s.eval_on(id, *batch); });
  if (s.graph->has_loss()) s.metrics->add_batch(s.read_losses(false), batch->weight_sum);
  return true;
}

void Session::leave(const std::string& reason) noexcept {
  state_->resources->leave(reason);
  left_ = true;
}

float Session::get_current_loss() {
  if (!trains()) state_->check_trains("get_current_loss()");
  return static_cast<float>(state_->in_job([&] { return state_->read_losses(true); }).front());
}

std::vector<std::pair<std::string, float>> Session::get_current_losses() {
  if (!trains()) state_->check_trains("get_current_losses()");
  const std::vector<double> values = state_->in_job([&] { return state_->read_losses(true); });
  const std::vector<LossOutputs>& losses = state_->graph->losses();
  std::vector<std::pair<std::string, float>> named;
  for (std::size_t t = 0; t < losses.size(); ++t) {
    named.emplace_back(losses[t].name,
                       static_cast<float>(values.at(values.size() == 1 ? 0 : t + 1)));
  }
  return named;
}

void Session::check_loss() {
  state_->in_job([&] { state_->check_loss(); });
}

std::vector<std::pair<std::string, double>> Session::get_eval_metrics() {
  return state_->in_job([&] { return state_->metrics->take(*state_->resources); });
}

LearningRateScheduler& Session::learning_rate_scheduler() { return state_->scheduler; }
void Session::set_learning_rate(float lr) { state_->lr = lr; }
float Session::learning_rate() const { return state_->lr; }

std::int64_t Session::step() const { return state_->step; }
void Session::set_step(std::int64_t step) {
  state_->step = step;
  if (state_->loss_watch) state_->loss_watch->forget(step);
}

void Session::set_trainable(const std::string& embedding, bool trainable) {
  TrainedSteps& steps = trained_steps(embedding);
  trainable ? steps.unfreeze() : steps.freeze();
}

TrainedSteps& Session::trained_steps(const std::string& embedding) {
  if (embedding.empty()) return state_->dense_steps;
  std::string known;
  for (std::size_t i = 0; i < num_tables(); ++i) {
    ShardedTable& table = (*state_->tables)[i];
    const std::string& name = table.params().name;
    if (name == embedding) return table.trained_steps();
    known += (known.empty() ? "'" : ", '") + name + "'";
  }
  throw InvalidArgument(concat("there is no embedding '", embedding, "'; the model has: ", known));
}

std::vector<LayerSummary> Session::summary() const {
  return layer_summary(state_->model, *state_->graph);
}

std::vector<std::pair<std::string, double>> Session::stage_seconds() {
  auto stages = state_->clock.take();
  stages.emplace_back("plan", state_->planner ? state_->planner->take_seconds() : 0.0);
  stages.emplace_back("wait_for_plan", state_->acquire_seconds);
  state_->acquire_seconds = 0.0;
  return stages;
}

void Session::set_profiling(bool on, bool alone) {
  SessionState& s = *state_;
  s.plan_when_done = on && alone;
  s.wait_for_plan();
  s.resources->synchronize();
  GPUResource& gpu = s.resources->get_local_gpu(0);
  std::shared_ptr<TimeMark> origin = gpu.compute_stream().create_time_mark();
  gpu.compute_stream().stamp(*origin);
  for (auto [stream, name] : timed_streams(gpu)) {
    stream->set_timeline(on ? std::make_shared<OpTimeline>(name, origin) : nullptr);
  }
}

std::vector<OpTime> Session::take_op_times() {
  SessionState& s = *state_;
  s.wait_for_plan();
  GPUResource& gpu = s.resources->get_local_gpu(0);
  std::vector<OpTime> times;
  for (Stream* const stream : timed_streams(gpu) | std::views::keys) {
    if (!stream->timeline()) continue;
    for (OpTime& time : stream->timeline()->take()) times.push_back(std::move(time));
  }
  return times;
}

std::vector<MemoryReportEntry> Session::memory_report(bool by_tensor) const {
  std::vector<MemoryReportEntry> report;
  for (const auto& network : state_->networks) {
    const auto part = network->memory_report(by_tensor);
    report.insert(report.end(), part.begin(), part.end());
  }
  const auto part = state_->tables->memory_report();
  report.insert(report.end(), part.begin(), part.end());
  if (by_tensor) return report;
  if (state_->train_reader) state_->train_reader->report_memory("training batches", report);
  if (state_->eval_reader) state_->eval_reader->report_memory("evaluation batches", report);
  return report;
}

void Session::wait_for_stream(void* stream) {
  HCTR_CHECK(state_->resources->device_type() == DeviceType::Cuda,
             "a model on the CPU waits for no stream: its tensors are read by the host");
  DeviceBackend& backend = DeviceBackend::get(DeviceType::Cuda);
  for (std::size_t id = 0; id < state_->devices(); ++id) {
    GPUResource& gpu = state_->resources->get_local_gpu(id);
    // Every device has default streams of its own.
    backend.order_streams({gpu.device(), stream}, {gpu.device(), gpu.compute_stream().native()});
    state_->networks[id]->round_weights_to_16_bits();  // weights may have been written
  }
}

ResourceManager& Session::resources() { return *state_->resources; }

}  // namespace hugectr
