// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/ops/attention.hpp"

namespace hugectr::cuda {

/// On tensor cores, 16 bits: false when the shape is not one they do, and nothing was launched.
bool attention_forward_on_tiles(const OpContext& context, const AttentionFwd& op);
bool attention_backward_on_tiles(const OpContext& context, const AttentionBwd& op);

}  // namespace hugectr::cuda
