// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/ops/interaction.hpp"

namespace hugectr {
namespace {

void interaction_fwd_kernel(const OpContext& context, const InteractionFwd& op) {
  if (op.mlp.rows() == 0) return;
  if (cuda::interaction_fwd_on_tensor_cores(context, op)) return;
  cuda::interaction_fwd_plain(context, op);
}

void interaction_bwd_kernel(const OpContext& context, const InteractionBwd& op) {
  if (op.mlp.size() == 0 || (op.dmlp.empty() && op.demb.empty())) return;
  if (cuda::interaction_bwd_on_tensor_cores(context, op)) return;
  cuda::interaction_bwd_plain(context, op);
}

const OpRegistration<InteractionFwd> interaction_fwd_cuda{DeviceType::Cuda,
                                                          &interaction_fwd_kernel};
const OpRegistration<InteractionBwd> interaction_bwd_cuda{DeviceType::Cuda,
                                                          &interaction_bwd_kernel};

}  // namespace
}  // namespace hugectr
