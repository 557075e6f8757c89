// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/single_network.hpp"

#include <numeric>

#include "core/cpp/device/float_values.hpp"

namespace hugectr {

SingleNetwork::SingleNetwork(const std::vector<NetworkInput>& inputs,
                             const std::vector<DenseLayerSpec>& layers, bool train,
                             std::uint64_t seed, DeviceType device, TensorScalarType dtype)
    : resources_(ResourceManager::create({{0}}, seed, device)), train_(train) {
  HCTR_CHECK(!inputs.empty() && !inputs.front().shape.empty(), "a network needs an input");
  NetworkOptions options;
  options.local_batch = inputs.front().shape[0];
  options.local_batch_eval = train ? 0 : options.local_batch;
  options.seed = seed;
  options.compute_dtype = dtype;
  options.opt_params.optimizer = Optimizer::SGD;
  graph_ = std::make_shared<NetworkGraph>(inputs, layers, options);
  network_ = std::make_unique<Network>(graph_, resources_->get_local_gpu(0));
  network_->set_dense_weights(graph_->initial_parameters());
  set(schedule_names::kSampleWeight, std::vector<float>(options.local_batch, 1.0f));
}

TensorRef SingleNetwork::find(const std::string& name) {
  if (name == schedule_names::kSampleWeight) return network_->sample_weight(train_);
  if (name == schedule_names::kLoss) return network_->loss(train_);
  return network_->tensor(name, train_);
}

void SingleNetwork::set(const std::string& name, const std::vector<float>& values) {
  const TensorRef ref = find(name);
  HCTR_CHECK(values.size() == ref.size(), "'", name, "' has ", ref.size(), " elements, got ",
             values.size());
  set_float_values(resources_->get_local_gpu(0).compute_stream(), ref, values);
  network_->round_weights_to_16_bits();  // it may have been a parameter
}

std::vector<float> SingleNetwork::get(const std::string& name, Shape* shape) {
  const TensorRef ref = find(name);
  if (shape) *shape = ref.shape;
  return float_values(resources_->get_local_gpu(0).compute_stream(), ref);
}

void SingleNetwork::forward(std::int64_t step) {
  const std::vector<float> weights = get(schedule_names::kSampleWeight, nullptr);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  StepScalars scalars;
  scalars.inv_weight_sum = sum > 0 ? static_cast<float>(1.0 / sum) : 0.0f;
  scalars.step = scalars.dense_step = step;
  network_->set_scalars(scalars);
  train_ ? network_->forward() : network_->eval();
  resources_->synchronize();
}

void SingleNetwork::backward() {
  HCTR_CHECK(train_, "backward() needs a network built for training");
  network_->backward();
  resources_->synchronize();
}

}  // namespace hugectr
