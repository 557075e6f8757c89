// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session.hpp"

#include <chrono>
#include <thread>

#include "core/cpp/base/fork.hpp"
#include "core/cpp/device/float_values.hpp"
#include "core/cpp/model/session_state.hpp"

namespace hugectr {
namespace {

/// Gives a batch back however its evaluation ends.
struct BatchReturn {
  IDataReader& reader;
  Batch* batch;
  ~BatchReturn() { reader.release(batch); }
};

}  // namespace

Session::Session(const SolverSpec& solver, const ReaderSpec& reader, const ModelSpec& model,
                 std::shared_ptr<IProcessGroup> processes)
    : impl_(new Impl(solver, reader, model, std::move(processes)), DeleteWhereMade()) {}

Session::~Session() = default;

void Session::start_data_reading() {
  const Impl::Call call(*impl_);
  impl_->train_reader->start();
  if (impl_->eval_reader) impl_->eval_reader->start();
}

void Session::stop_data_reading() {
  impl_->planner->settle();
  impl_->train_reader->close();
  if (impl_->eval_reader) impl_->eval_reader->close();
}

void Session::end(double seconds) noexcept {
  Impl& s = *impl_;
  if (s.ended.exchange(true)) return;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (s.calls > 0) {
    if (std::chrono::steady_clock::now() >= limit) return;  // it would be pulled from under a call
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  try {
    stop_data_reading();
    s.resources->synchronize();
  } catch (const std::exception&) {  // nobody is left to hear of a device or process that is broken
  }
}

bool Session::train() {
  return impl_->in_job([&] { return impl_->train(); });
}

bool Session::Impl::train() {
  Impl& s = *this;
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
  if (!s.plan_when_done) s.planner->start();
  try {
    s.resources->for_each_device([&](std::size_t id) { s.train_on(id, planned); });
  } catch (...) {
    s.planner->give_up(planned);
    throw;
  }
  ++s.step;
  s.trained_to = planned.batch->next;
  s.train_reader->release(planned.batch);
  if (s.plan_when_done) {
    s.resources->synchronize();
    s.planner->start();
  }
  return true;
}

bool Session::eval() {
  HCTR_CHECK(impl_->eval_reader, "eval(): the reader has no eval_source");
  return impl_->in_job([&] { return impl_->eval(); });
}

bool Session::Impl::eval() {
  Impl& s = *this;
  s.eval_reader->start();
  // A training plan under way shares the plan streams and the hash tables.
  s.planner->settle();
  Batch* batch = s.eval_reader->acquire();
  if (!batch) return false;
  const BatchReturn give_back{*s.eval_reader, batch};
  s.resources->for_each_device_planning([&](std::size_t id) { s.plan_eval_on(id, *batch); });
  s.resources->for_each_device([&](std::size_t id) { s.eval_on(id, *batch); });
  s.metrics->add_batch(s.read_loss(false), batch->weight_sum);
  return true;
}

void Session::leave(const std::string& reason) noexcept {
  impl_->resources->leave(reason);
  left_ = true;
}

float Session::get_current_loss() {
  return static_cast<float>(impl_->in_job([&] { return impl_->read_loss(true); }));
}

void Session::check_loss() {
  impl_->in_job([&] { impl_->check_loss(); });
}

std::vector<std::pair<std::string, double>> Session::get_eval_metrics() {
  return impl_->in_job([&] { return impl_->metrics->take(*impl_->resources); });
}

float Session::loss_scale() const { return impl_->networks.front()->loss_scale(); }
std::int64_t Session::skipped_steps() const { return impl_->networks.front()->skipped_steps(); }

void Session::set_source(const std::string& source) {
  const Impl::Call call(*impl_);
  impl_->planner->discard();
  impl_->train_reader->set_source(source);
  impl_->at_end = false;
  impl_->trained_to = {};
}

ReadPosition Session::data_position() const { return impl_->trained_to; }

void Session::set_data_position(const ReadPosition& position) {
  const Impl::Call call(*impl_);
  impl_->planner->discard();
  try {
    impl_->train_reader->seek(position);
  } catch (...) {
    const std::exception_ptr refused = std::current_exception();
    try {
      impl_->train_reader->seek(impl_->trained_to);
    } catch (...) {  // the data is gone: reading says so
    }
    std::rethrow_exception(refused);
  }
  impl_->at_end = false;
  impl_->trained_to = position;
}

void Session::set_eval_source(const std::string& source) {
  const Impl::Call call(*impl_);
  HCTR_CHECK(impl_->eval_reader, "set_eval_source: the model was built without an eval_source");
  impl_->eval_reader->set_source(source);
}

bool Session::train_data_at_end() const { return impl_->at_end; }

LearningRateScheduler& Session::learning_rate_scheduler() { return impl_->scheduler; }
void Session::set_learning_rate(float lr) { impl_->lr = lr; }

void Session::set_trainable(const std::string& embedding, bool trainable) {
  if (embedding.empty()) {
    impl_->dense_trainable = trainable;
    return;
  }
  std::string known;
  for (std::size_t i = 0; i < num_embeddings(); ++i) {
    ShardedTable& table = (*impl_->tables)[i];
    const std::string& name = table.params().name;
    if (name == embedding) return trainable ? table.unfreeze() : table.freeze();
    known += (known.empty() ? "'" : ", '") + name + "'";
  }
  throw InvalidArgument(concat("there is no embedding '", embedding, "'; the model has: ", known));
}

std::size_t Session::num_embeddings() const { return impl_->tables->size(); }

std::vector<float> Session::check_out_tensor(const std::string& name, bool train, Shape* shape) {
  Impl& s = *impl_;
  std::vector<float> values;
  for (std::size_t id = 0; id < s.devices(); ++id) {
    const TensorRef ref = s.networks[id]->tensor(name, train);
    const std::vector<float> part =
        float_values(s.resources->get_local_gpu(id).compute_stream(), ref);
    values.insert(values.end(), part.begin(), part.end());
    if (shape) *shape = ref.shape;
  }
  if (shape && !shape->empty()) (*shape)[0] *= s.devices();
  return values;
}

std::vector<LayerSummary> Session::summary() const {
  const Impl& s = *impl_;
  std::vector<LayerSummary> rows;
  LayerSummary data{"Data", {}, {}, {}};
  for (const NetworkInput& input : s.graph->inputs()) {
    if (input.needs_gradient) continue;
    data.tops.push_back(input.name);
    data.top_shapes.push_back(input.shape);
  }
  for (const SparseInput& sparse : s.model.input.sparse) {
    data.tops.push_back(sparse.top_name);
    data.top_shapes.push_back({s.graph->options().local_batch, sparse.slot_num});
  }
  rows.push_back(data);
  for (const SparseEmbeddingSpec& spec : s.model.embeddings) {
    rows.push_back(
        {to_string(spec.type), {spec.bottom}, {spec.name}, {s.graph->top_shape(spec.name)}});
  }
  for (const DenseLayerSpec& layer : s.graph->layers()) {
    LayerSummary row{layer.type, layer.bottoms, layer.tops, {}};
    for (const std::string& top : layer.tops) row.top_shapes.push_back(s.graph->top_shape(top));
    rows.push_back(std::move(row));
  }
  return rows;
}

const std::vector<DenseLayerSpec>& Session::layers() const { return impl_->graph->layers(); }

std::vector<TableStats> Session::table_stats() const {
  std::vector<TableStats> stats;
  impl_->planner->settle();
  for (std::size_t i = 0; i < num_embeddings(); ++i) stats.push_back((*impl_->tables)[i].stats());
  return stats;
}

ReaderMetrics Session::reader_metrics(bool train) {
  HCTR_CHECK(train || impl_->eval_reader, "the model was built without an eval_source");
  return (train ? impl_->train_reader : impl_->eval_reader)->metrics();
}

std::vector<std::pair<std::string, double>> Session::stage_seconds() {
  auto stages = impl_->clock.take();
  stages.emplace_back("plan", impl_->planner->take_seconds());
  stages.emplace_back("wait_for_plan", impl_->acquire_seconds);
  impl_->acquire_seconds = 0.0;
  return stages;
}

void Session::set_profiling(bool on, bool alone) {
  Impl& s = *impl_;
  s.plan_when_done = on && alone;
  s.planner->settle();
  s.resources->synchronize();
  GPUResource& gpu = s.resources->get_local_gpu(0);
  std::shared_ptr<TimeMark> origin = gpu.compute_stream().create_time_mark();
  gpu.compute_stream().stamp(*origin);
  for (auto [stream, name] :
       {std::pair(&gpu.compute_stream(), "compute"), std::pair(&gpu.plan_stream(), "plan"),
        std::pair(&gpu.exchange_stream(), "exchange")}) {
    stream->set_timeline(on ? std::make_shared<OpTimeline>(name, origin) : nullptr);
  }
}

std::size_t Session::captured_pieces() const {
  std::size_t pieces = 0;
  for (const auto& network : impl_->networks) pieces += network->captured_pieces();
  return pieces;
}

std::vector<OpTime> Session::take_op_times() {
  Impl& s = *impl_;
  s.planner->settle();
  GPUResource& gpu = s.resources->get_local_gpu(0);
  std::vector<OpTime> times;
  for (Stream* stream : {&gpu.compute_stream(), &gpu.plan_stream(), &gpu.exchange_stream()}) {
    if (!stream->timeline()) continue;
    for (OpTime& time : stream->timeline()->take()) times.push_back(std::move(time));
  }
  return times;
}

std::vector<MemoryReportEntry> Session::memory_report() const {
  std::vector<MemoryReportEntry> report;
  for (const auto& network : impl_->networks) {
    const auto part = network->memory_report();
    report.insert(report.end(), part.begin(), part.end());
  }
  const auto part = impl_->tables->memory_report();
  report.insert(report.end(), part.begin(), part.end());
  return report;
}

ResourceManager& Session::resources() { return *impl_->resources; }

}  // namespace hugectr
