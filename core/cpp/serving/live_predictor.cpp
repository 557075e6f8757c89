// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/live_predictor.hpp"

#include <algorithm>
#include <numeric>

#include "core/cpp/device/float_values.hpp"
#include "core/cpp/metrics/eval_metrics.hpp"
#include "core/cpp/model/build.hpp"
#include "core/cpp/model/eval_tasks.hpp"
#include "core/cpp/model/forward_network.hpp"
#include "core/cpp/model/label_inputs.hpp"
#include "core/cpp/model/sequence_lengths.hpp"
#include "core/cpp/model/session_state.hpp"
#include "core/cpp/ops/cast.hpp"
#include "core/cpp/serving/execution.hpp"
#include "core/cpp/serving/outputs.hpp"
#include "core/cpp/serving/predictor.hpp"

namespace hugectr {
namespace {

/// Gives a batch back however its prediction ends.
struct PredictedBatch {
  IDataReader& reader;
  Batch* batch;
  ~PredictedBatch() { reader.release(batch); }
};

/// What every device of the job has of something, in the order of their global ids: `own` has room
/// for all of it, and this process's part filled in.
template <class T>
void gather_over_processes(const ResourceManager& resources, std::vector<T>& own) {
  const auto& processes = resources.processes();
  if (!processes) return;
  const std::size_t devices = resources.get_global_gpu_count(), part = own.size() / devices;
  std::vector<T> all(own.size() * processes->size());
  processes->all_gather(own.data(), own.size() * sizeof(T), all.data());
  for (std::size_t id = 0; id < devices; ++id) {
    const std::size_t from =
        resources.get_process_id_from_gpu_global_id(id) * own.size() + id * part;
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(from), part,
                own.begin() + static_cast<std::ptrdiff_t>(id * part));
  }
}

}  // namespace

LivePredictor::LivePredictor(Session& session, std::size_t batch_size)
    : session_(session.state()), solver_(session_->solver) {
  SessionState& s = *session_;
  const std::size_t devices = s.resources->get_global_gpu_count();
  const std::size_t most = std::max(s.solver.batchsize, s.solver.batchsize_eval);
  HCTR_CHECK(batch_size > 0 && batch_size % devices == 0, "batch_size ", batch_size,
             " must be a positive multiple of the number of devices, ", devices);
  HCTR_CHECK(devices == 1 || batch_size <= most, "batch_size ", batch_size, " must be at most ",
             most, ", what the model's ", devices, " devices can exchange at once");
  solver_.batchsize_eval = batch_size;
  solver_.repeat_dataset = false;
  ModelSpec model = s.model;
  model.trains = false;
  graph_ = make_graph(solver_, model, *s.resources, true);
  on_the_cpu_alone_ =
      devices == 1 && s.resources->get_local_gpu(0).device().type == DeviceType::Cpu;
  // A Predictor reads tables as they lie in memory; rows on a disk come by plans.
  for (std::size_t t = 0; t < s.tables->size() && on_the_cpu_alone_; ++t) {
    on_the_cpu_alone_ = (*s.tables)[t].part(0).store().is_whole();
  }
  if (!on_the_cpu_alone_) make_networks();
}

LivePredictor::~LivePredictor() {
  try {
    session_->resources->synchronize();
  } catch (const std::exception&) {  // whoever asked for it has been told
  }
}

void LivePredictor::make_networks() {
  SessionState& s = *session_;
  networks_.resize(s.devices());
  s.resources->for_each_device([&](std::size_t id) {
    GPUResource& gpu = s.resources->get_local_gpu(id);
    networks_[id] = std::make_unique<ForwardNetwork>(
        graph_, *s.networks[id], gpu.compute_context(), gpu.memory_resource(),
        concat("predictions on ", to_string(gpu.device())));
  });
}

Predictor& LivePredictor::predictor() const {
  if (!predictor_) predictor_ = std::make_unique<Predictor>(session_);
  return *predictor_;
}

void LivePredictor::for_each_batch(std::shared_ptr<const MemoryData> samples,
                                   const InputLayout& layout,
                                   const std::function<void(std::size_t, Batch&)>& forward,
                                   const std::function<void(const Batch&)>& done) {
  SessionState& s = *session_;
  ReaderSpec source;
  source.num_workers = 1;
  source.eval_memory = std::move(samples);
  const auto reader = make_eval_reader(solver_, source, layout, s.resources);
  reader->start();
  // A training plan under way shares the plan streams and the hash tables.
  s.wait_for_plan();
  while (Batch* batch = reader->acquire()) {
    const PredictedBatch give_back{*reader, batch};
    s.resources->for_each_device_planning([&](std::size_t id) { s.plan_eval_on(id, *batch); });
    s.resources->for_each_device([&](std::size_t id) {
      DeviceBatch& part = batch->devices[id];
      Stream& stream = s.resources->get_local_gpu(id).compute_stream();
      stream.wait(*part.ready);
      write_inputs(id, part);
      s.tables->forward(id, PlanSlot::Eval, [&](std::size_t table) {
        return networks_[id]->tensor((*s.tables)[table].params().top);
      });
      forward(id, *batch);
      stream.record(*part.consumed);
    });
    done(*batch);
  }
}

void LivePredictor::write_inputs(std::size_t local_id, const DeviceBatch& batch) {
  const InputSpec& input = session_->model.input;
  const ForwardNetwork& network = *networks_[local_id];
  GPUResource& gpu = session_->resources->get_local_gpu(local_id);
  const std::size_t samples = solver_.batchsize_eval / session_->resources->get_global_gpu_count();
  write_lengths(gpu.compute_context(), input, batch.sparse, gpu.get_global_id() * samples,
                [&](const std::string& name) { return network.tensor_or_none(name); });
  if (input.dense_dim == 0 || !network.has_tensor(input.dense_name)) return;
  run(gpu.compute_context(), Cast{.x = batch.dense, .y = network.tensor(input.dense_name)});
}

std::vector<float> LivePredictor::gathered(const std::string& tensor, std::size_t width) const {
  const ResourceManager& resources = *session_->resources;
  std::vector<float> all(solver_.batchsize_eval * width);
  for (std::size_t id = 0; id < networks_.size(); ++id) {
    GPUResource& gpu = session_->resources->get_local_gpu(id);
    const std::vector<float> part =
        float_values(gpu.compute_stream(), networks_[id]->tensor(tensor));
    std::copy(part.begin(), part.end(),
              all.begin() + static_cast<std::ptrdiff_t>(gpu.get_global_id() * part.size()));
  }
  gather_over_processes(resources, all);
  return all;
}

std::vector<float> LivePredictor::predict(std::shared_ptr<const MemoryData> samples,
                                          const std::string& output) {
  if (!on_the_cpu_alone_) return predict_on_devices(std::move(samples), output);
  const Predictor& predictor = this->predictor();
  session_->wait_for_plan();  // then nothing writes rows or weights
  session_->resources->synchronize();
  const std::size_t batch = predictor.samples_meet() ? solver_.batchsize_eval : 0;
  return predictor.predict(*samples, output, batch);
}

std::vector<float> LivePredictor::predict_on_devices(std::shared_ptr<const MemoryData> samples,
                                                     const std::string& output) {
  SessionState& s = *session_;
  const Output made_of = output_of(output, graph());
  const std::size_t width = num_elements(sample_shape(output));
  InputLayout layout = input_layout(solver_, s.model);
  layout.label_dim = 0;  // nothing here needs labels
  std::vector<float> values;
  values.reserve(samples->samples * width);
  s.in_job([&] {
    for_each_batch(
        samples, layout,
        [&](std::size_t id, Batch& batch) {
          weigh(id, batch);
          networks_[id]->forward();
        },
        [&](const Batch& batch) {
          const std::vector<float> rows = gathered(made_of.tensor, width);
          values.insert(values.end(), rows.begin(),
                        rows.begin() + static_cast<std::ptrdiff_t>(batch.samples * width));
        });
  });
  predict_rows(made_of, values);
  return values;
}

std::vector<std::pair<std::string, double>> LivePredictor::evaluate(
    std::shared_ptr<const MemoryData> samples, const std::vector<std::string>& names) {
  SessionState& s = *session_;
  HCTR_CHECK(graph().has_loss(),
             "evaluate: the model has no loss, whose scores and labels "
             "metrics are made from");
  if (networks_.empty()) make_networks();
  const std::vector<TaskColumns> tasks = eval_tasks(graph());
  EvalMetrics metrics(names, s.devices(), eval_subject(graph(), s.model.input));
  InputLayout layout = input_layout(solver_, s.model);
  layout.labels = column_ranges(s.model.input, graph());
  const auto forward = [&](std::size_t id, Batch& batch) {
    GPUResource& gpu = s.resources->get_local_gpu(id);
    ForwardNetwork& network = *networks_[id];
    const DeviceBatch& part = batch.devices[id];
    StepScalars scalars;
    scalars.inv_weight_sum =
        batch.weight_sum > 0 ? static_cast<float>(1.0 / batch.weight_sum) : 0.0f;
    network.set_scalars(scalars);
    const auto tensor = [&](const std::string& name) { return network.tensor(name); };
    write_labels(gpu.compute_context(), s.model.input, part.label, tensor);
    weigh(id, batch);
    network.forward_and_loss();
    add_tasks(metrics, gpu, tasks, s.model.input, tensor, network.sample_weight());
  };
  return s.in_job([&] {
    for_each_batch(samples, layout, forward,
                   [&](const Batch& batch) { metrics.add_batch(losses(), batch.weight_sum); });
    return metrics.take(*s.resources);
  });
}

void LivePredictor::weigh(std::size_t id, const Batch& batch) const {
  const TensorRef weight = networks_[id]->sample_weight();
  session_->resources->get_local_gpu(id).compute_stream().copy(
      weight.data, batch.devices[id].sample_weight.data, weight.size_in_bytes());
}

std::vector<double> LivePredictor::losses() const {
  std::vector<std::string> names{schedule_names::kLoss};
  for (const LossOutputs& loss : graph().losses()) {
    if (!loss.loss.empty()) names.push_back(loss.loss);
  }
  std::vector<double> sums;
  for (const std::string& name : names) {
    std::vector<float> shares(session_->resources->get_global_gpu_count());
    for (std::size_t id = 0; id < networks_.size(); ++id) {
      GPUResource& gpu = session_->resources->get_local_gpu(id);
      const ForwardNetwork& network = *networks_[id];
      const TensorRef loss = name == schedule_names::kLoss ? network.loss() : network.tensor(name);
      shares[gpu.get_global_id()] = float_values(gpu.compute_stream(), loss).front();
    }
    gather_over_processes(*session_->resources, shares);
    sums.push_back(std::accumulate(shares.begin(), shares.end(), 0.0));
  }
  return sums;
}

Shape LivePredictor::sample_shape(const std::string& output) const {
  if (on_the_cpu_alone_) return predictor().sample_shape(output);
  return sample_tensor(*networks_.front(), output_of(output, graph()).tensor).shape;
}

}  // namespace hugectr
