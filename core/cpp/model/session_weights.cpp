// SPDX-License-Identifier: Apache-2.0
// The part of Session that reads and writes parameters.
#include "core/cpp/model/host_values.hpp"
#include "core/cpp/model/session.hpp"
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

}  // namespace

std::vector<float> Session::dense_weights() { return impl_->networks[0]->dense_weights(); }

void Session::set_dense_weights(const std::vector<float>& values) {
  impl_->loss_watch->forget(impl_->step);
  for (const auto& network : impl_->networks) network->set_dense_weights(values);
}

std::vector<float> Session::dense_optimizer_states() {
  return impl_->networks[0]->dense_optimizer_states();
}

void Session::set_dense_optimizer_states(const std::vector<float>& values) {
  for (const auto& network : impl_->networks) network->set_dense_optimizer_states(values);
}

std::vector<Session::NonTrainableValues> Session::non_trainables() {
  const std::vector<float> flat = to_host(impl_->resources->get_local_gpu(0).compute_stream(),
                                          impl_->networks[0]->non_trainables());
  std::vector<NonTrainableValues> result;
  auto next = flat.begin();
  for (const NonTrainable& tensor : impl_->graph->non_trainables()) {
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

void Session::set_non_trainables(const std::vector<NonTrainableValues>& values) {
  std::vector<float> flat;
  for (const NonTrainable& tensor : impl_->graph->non_trainables()) {
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
  for (const auto& network : impl_->networks) refs.push_back(network->non_trainables());
  to_devices(*impl_->resources, refs, flat, "running statistics");
}

std::int64_t Session::step() const { return impl_->step; }
void Session::set_step(std::int64_t step) {
  impl_->step = step;
  impl_->loss_watch->forget(step);
}

}  // namespace hugectr
