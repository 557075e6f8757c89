// SPDX-License-Identifier: Apache-2.0
// The part of Network that brings parameters and optimizer states in and out.
#include "core/cpp/model/host_values.hpp"
#include "core/cpp/model/network.hpp"
#include "core/cpp/ops/cast.hpp"
#include "core/cpp/ops/loss_scale.hpp"

namespace hugectr {
namespace {

void to_device(Stream& stream, const TensorRef& ref, const std::vector<float>& values) {
  stream.copy(ref.data, values.data(), values.size() * sizeof(float));
  stream.synchronize();
}

}  // namespace

std::vector<float> Network::dense_weights() const {
  return graph_->layout().pack(to_host(gpu_.compute_stream(), weights()));
}

void Network::set_dense_weights(const std::vector<float>& values) {
  const ParameterLayout& layout = graph_->layout();
  HCTR_CHECK(values.size() == layout.count(), "dense weights: ", values.size(),
             " values given, the model has ", layout.count());
  to_device(gpu_.compute_stream(), weights(), layout.spread(values));
  round_weights_to_16_bits();
}

LossScalingState Network::loss_scaling_state() const {
  LossScalingState state;
  if (!scales_loss()) return state;
  Stream& stream = gpu_.compute_stream();
  stream.copy(&state.scale, loss_scale_.ref().data, sizeof(state.scale));
  stream.copy(&state.good_steps, good_steps_.ref().data, sizeof(state.good_steps));
  stream.copy(&state.skipped_steps, skipped_steps_.ref().data, sizeof(state.skipped_steps));
  stream.synchronize();
  return state;
}

void Network::set_loss_scaling_state(const LossScalingState& state) {
  if (!scales_loss()) return;
  Stream& stream = gpu_.compute_stream();
  stream.copy(loss_scale_.get_ptr(), &state.scale, sizeof(state.scale));
  stream.copy(good_steps_.get_ptr(), &state.good_steps, sizeof(state.good_steps));
  stream.copy(skipped_steps_.get_ptr(), &state.skipped_steps, sizeof(state.skipped_steps));
  stream.synchronize();
}

bool Network::weights_are_finite() const {
  if (graph_->layout().count() == 0) return true;
  run(gpu_.compute_context(), FindOverflow{.xs = {weights()}, .overflow = not_finite_.ref()});
  return to_host(gpu_.compute_stream(), not_finite_.ref()).front() == 0.0f;
}

void Network::round_weights_to_16_bits() {
  if (weights_16_.empty() || weights_16_.size() == 0) return;
  run(gpu_.compute_context(), Cast{.x = weights(), .y = weights_16_});
}

std::vector<float> Network::dense_optimizer_states() const {
  if (graph_->state_count() == 0) return {};
  return graph_->layout().pack(to_host(gpu_.compute_stream(), states()));
}

void Network::set_dense_optimizer_states(const std::vector<float>& values) {
  const ParameterLayout& layout = graph_->layout();
  const std::size_t count = graph_->state_count() * layout.count();
  HCTR_CHECK(values.size() == count, "dense optimizer states: ", values.size(),
             " values given, the model has ", count);
  if (count == 0) return;
  to_device(gpu_.compute_stream(), states(), layout.spread(values));
}

}  // namespace hugectr
