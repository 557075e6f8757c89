// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session.hpp"
#include "core/cpp/model/session_state.hpp"

/// What a native checkpoint gives back besides weights and rows.
namespace hugectr {

void Session::reset_embedding(std::size_t index) {
  HCTR_CHECK(index < impl_->tables->size(), "there is no embedding ", index, ": the model has ",
             impl_->tables->size());
  impl_->settle();
  (*impl_->tables)[index].reset();
}

float Session::learning_rate() const { return impl_->lr; }

LossScalingState Session::loss_scaling_state() const {
  return impl_->networks.front()->loss_scaling_state();
}

void Session::set_loss_scaling_state(const LossScalingState& state) {
  for (auto& network : impl_->networks) network->set_loss_scaling_state(state);
}

}  // namespace hugectr
