// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/ops/embedding_sweep.cuh"
#include "core/cuda/ops/embedding_update.hpp"
#include "core/cuda/ops/embedding_update_many.cuh"

namespace hugectr::cuda {

void update_rounded(const OpContext& context, const std::vector<const EmbeddingUpdate*>& several) {
  update_several<BFloat16>(context, several);
}

void sweep_rounded(const OpContext& context, const EmbeddingSweep& op) {
  with_row_rule(op.params, [&]<class Rule>(const Rule& rule) {
    if constexpr (Rule::kMovesUntouchedRows) sweep<BFloat16>(context, op, rule);
  });
}

}  // namespace hugectr::cuda
