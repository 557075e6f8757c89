// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/ops/interaction.hpp"

/// The ways an interaction runs. The tensor-core ways take 16-bit numbers, a width that is a
/// multiple of 8, up to 63 slots, and rows that begin at multiples of 16 bytes (of all tensors but
/// y and dy); they return false, having done nothing, for any other op.
namespace hugectr::cuda {

bool interaction_fwd_on_tensor_cores(const OpContext& context, const InteractionFwd& op);
bool interaction_bwd_on_tensor_cores(const OpContext& context, const InteractionBwd& op);

/// Every shape and dtype, in float32.
void interaction_fwd_plain(const OpContext& context, const InteractionFwd& op);
void interaction_bwd_plain(const OpContext& context, const InteractionBwd& op);

}  // namespace hugectr::cuda
