// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/ops/embedding_update.hpp"

namespace hugectr::cuda {

/// The ops on weights in bfloat16; of updates those that have rows. One alone runs as several do:
/// their kernels are few enough as it is.
void update_rounded(const OpContext& context, const std::vector<const EmbeddingUpdate*>& several);
void sweep_rounded(const OpContext& context, const EmbeddingSweep& op);

}  // namespace hugectr::cuda
