// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session_network.hpp"

#include "core/cpp/device/float_values.hpp"
#include "core/cpp/model/host_values.hpp"
#include "core/cpp/model/session_state.hpp"
#include "core/cpp/ops/batch_norm.hpp"

namespace hugectr {
namespace {

/// The same values on every local device.
void to_devices(ResourceManager& resources, const std::vector<TensorRef>& refs,
                const std::vector<float>& values, const char* what) {
  for (std::size_t id = 0; id < refs.size(); ++id) {
    HCTR_CHECK(values.size() == refs[id].size(), what, ": ", values.size(),
               " values given, the model has ", refs[id].size());
    Stream& stream = resources.get_local_gpu(id).compute_stream();
    stream.copy(refs[id].data, values.data(), values.size() * sizeof(float));
    stream.synchronize();
  }
}

/// A parameter's part of flat arrays of all parameters, one after the other.
TensorRef part_of(const NetworkGraph& graph, TensorRef flat, std::size_t array,
                  const std::string& name) {
  const std::vector<Parameter>& parameters = graph.parameters();
  std::string known;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    known += (known.empty() ? "'" : ", '") + parameters[i].name + "'";
    if (parameters[i].name != name) continue;
    flat.data =
        flat.ptr<float>() + array * graph.layout().flat_size() + graph.layout().offsets()[i];
    flat.shape = parameters[i].shape;
    flat.row_stride = flat.row_size();
    return flat;
  }
  throw InvalidArgument(concat("there is no dense weight '", name, "'; the model has: ", known));
}

}  // namespace

SessionNetwork::SessionNetwork(SessionState& session) : session_(session) {}

const std::vector<DenseLayerSpec>& SessionNetwork::layers() const {
  return session_.graph->layers();
}

std::vector<float> SessionNetwork::dense_weights() { return session_.networks[0]->dense_weights(); }

void SessionNetwork::set_dense_weights(const std::vector<float>& values) {
  if (session_.loss_watch) session_.loss_watch->forget(session_.step);
  for (const auto& network : session_.networks) network->set_dense_weights(values);
}

std::vector<float> SessionNetwork::dense_optimizer_states() {
  return session_.networks[0]->dense_optimizer_states();
}

void SessionNetwork::set_dense_optimizer_states(const std::vector<float>& values) {
  for (const auto& network : session_.networks) network->set_dense_optimizer_states(values);
}

void SessionNetwork::reset_dense_optimizer_states() {
  for (const auto& network : session_.networks) network->reset_optimizer();
}

std::vector<NonTrainableValues> SessionNetwork::non_trainables() {
  const std::vector<float> flat = to_host(session_.resources->get_local_gpu(0).compute_stream(),
                                          session_.networks[0]->non_trainables());
  std::vector<NonTrainableValues> result;
  auto next = flat.begin();
  for (const NonTrainable& tensor : session_.graph->non_trainables()) {
    const auto end = next + static_cast<std::ptrdiff_t>(num_elements(tensor.shape));
    if (result.empty() || result.back().layer != tensor.layer) {
      result.push_back({tensor.layer, {}, {}});
    }
    NonTrainableValues& values = result.back();
    if (tensor.name.ends_with(".mean")) {
      values.mean.assign(next, end);
    } else if (tensor.name.ends_with(".mean_low")) {
      for (std::size_t j = 0; j < values.mean.size(); ++j) {
        values.mean[j] += static_cast<double>(next[static_cast<std::ptrdiff_t>(j)]);
      }
    } else {
      values.var.assign(next, end);
    }
    next = end;
  }
  return result;
}

void SessionNetwork::set_non_trainables(const std::vector<NonTrainableValues>& values) {
  std::vector<float> flat;
  for (const NonTrainable& tensor : session_.graph->non_trainables()) {
    const NonTrainableValues* found = nullptr;
    for (const auto& value : values) {
      if (value.layer == tensor.layer) found = &value;
    }
    HCTR_CHECK(found, "running statistics of layer '", tensor.layer, "' are missing");
    const bool is_var = tensor.name.ends_with(".var");
    const std::size_t given = is_var ? found->var.size() : found->mean.size();
    HCTR_CHECK(given == num_elements(tensor.shape), "'", tensor.name, "' has ", given,
               " values, the model has ", num_elements(tensor.shape));
    if (is_var) {
      flat.insert(flat.end(), found->var.begin(), found->var.end());
      continue;
    }
    const bool is_low = tensor.name.ends_with(".mean_low");
    for (const double mean : found->mean) {
      const SplitMean split = split_mean(mean);
      flat.push_back(is_low ? split.low : split.high);
    }
  }
  std::vector<TensorRef> refs;
  for (const auto& network : session_.networks) refs.push_back(network->non_trainables());
  to_devices(*session_.resources, refs, flat, "running statistics");
}

LossScalingState SessionNetwork::loss_scaling_state() const {
  return session_.networks.front()->loss_scaling_state();
}

void SessionNetwork::set_loss_scaling_state(const LossScalingState& state) {
  for (const auto& network : session_.networks) network->set_loss_scaling_state(state);
}

std::vector<float> SessionNetwork::check_out_tensor(const std::string& name, bool train,
                                                    Shape* shape) {
  SessionState& s = session_;
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

TensorView SessionNetwork::tensor_view(const std::string& name, bool train, std::size_t local_id) {
  GPUResource& gpu = session_.resources->get_local_gpu(local_id);
  // The memory of gradients is shared between them: what it holds after a step is nobody's.
  HCTR_CHECK(name.find('@') == std::string::npos, "tensor '", name,
             "': only tensors that the model names can be looked at");
  return session_.view(gpu.get_local_id(), session_.networks[local_id]->tensor(name, train));
}

std::vector<std::string> SessionNetwork::weight_names() const {
  std::vector<std::string> names;
  for (const Parameter& parameter : session_.graph->parameters()) names.push_back(parameter.name);
  return names;
}

TensorView SessionNetwork::weight_view(const std::string& name, std::size_t local_id) {
  SessionState& s = session_;
  s.resources->get_local_gpu(local_id);  // checks the number
  return s.view(local_id, part_of(*s.graph, s.networks[local_id]->weights(), 0, name));
}

TensorView SessionNetwork::state_view(const std::string& name, std::size_t state,
                                      std::size_t local_id) {
  SessionState& s = session_;
  s.resources->get_local_gpu(local_id);  // checks the number
  HCTR_CHECK(state < s.graph->state_count(), "there is no optimizer state ", state,
             ": the model's optimizer has ", s.graph->state_count());
  return s.view(local_id, part_of(*s.graph, s.networks[local_id]->states(), state, name));
}

void SessionNetwork::set_weight(const std::string& name, const TensorView& values) {
  const TensorRef& from = values.ref;
  const TensorRef wanted = weight_view(name, 0).ref;
  HCTR_CHECK(from.shape == wanted.shape && from.dtype == wanted.dtype, "dense weight '", name,
             "' is ", to_string(wanted.dtype), " ", to_string(wanted.shape), ", found ",
             to_string(from.dtype), " ", to_string(from.shape));
  HCTR_CHECK(from.device.type == DeviceType::Cpu || wanted.device.type == DeviceType::Cuda,
             "dense weight '", name, "' lies on the CPU and can not be set from ",
             to_string(from.device), ": copy the values to the host first");
  for (std::size_t id = 0; id < session_.devices(); ++id) {
    const TensorView to = weight_view(name, id);
    if (from.device.type == DeviceType::Cuda) {
      DeviceBackend::get(DeviceType::Cuda)
          .order_streams(native_stream_of(values), native_stream_of(to));
    }
    copy_rows(*to.stream, from, to.ref);
    session_.networks[id]->round_weights_to_16_bits();
  }
  for (std::size_t id = 0; id < session_.devices(); ++id)
    weight_view(name, id).stream->synchronize();
}

std::size_t SessionNetwork::captured_pieces() const {
  std::size_t pieces = 0;
  for (const auto& network : session_.networks) pieces += network->captured_pieces();
  return pieces;
}

}  // namespace hugectr
