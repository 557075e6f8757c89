// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "core/cuda/ops/embedding_sweep.cuh"
#include "core/cuda/ops/embedding_update.hpp"
#include "core/cuda/ops/embedding_update_many.cuh"

namespace hugectr::cuda {
namespace {

bool has_work(const EmbeddingUpdate& op) {
  return op.unique_rows.size() > 0 && op.sorted_buckets.size() > 0 && op.weights.shape[1] > 0;
}

bool is_rounded(const TensorRef& weights) { return weights.dtype == TensorScalarType::BFloat16; }

void embedding_updates(const OpContext& context, const Several<EmbeddingUpdate>& several) {
  std::vector<const EmbeddingUpdate*> exact, rounded;
  for (const EmbeddingUpdate& op : several.ops) {
    if (has_work(op)) (is_rounded(op.weights) ? rounded : exact).push_back(&op);
  }
  update_several<float>(context, exact);
  if (!rounded.empty()) update_rounded(context, rounded);
}

void embedding_update(const OpContext& context, const EmbeddingUpdate& op) {
  if (!has_work(op)) return;
  if (is_rounded(op.weights)) return update_rounded(context, {&op});
  with_real_type(op.gradient.dtype, [&]<class T>(T) {
    with_row_rule(op.params, [&](const auto& rule) { update_all<T, float>(context, op, rule); });
  });
}

void embedding_sweep(const OpContext& context, const EmbeddingSweep& op) {
  const std::size_t rows = op.weights.rows(), d = op.weights.shape[1];
  if (rows == 0 || d == 0) return;
  HCTR_CHECK(d <= 1024, EmbeddingSweep::kName, ": vectors of ", d, " are longer than 1024");
  if (is_rounded(op.weights)) return sweep_rounded(context, op);
  with_row_rule(op.params, [&]<class Rule>(const Rule& rule) {
    if constexpr (Rule::kMovesUntouchedRows) sweep<float>(context, op, rule);
  });
}

const OpRegistration<EmbeddingUpdate> embedding_update_cuda{DeviceType::Cuda, &embedding_update};
const SeveralRegistration<EmbeddingUpdate> several_embedding_update_cuda{DeviceType::Cuda,
                                                                         &embedding_updates};
const OpRegistration<EmbeddingSweep> embedding_sweep_cuda{DeviceType::Cuda, &embedding_sweep};
const SeveralRegistration<EmbeddingSweep> several_embedding_sweep_cuda{DeviceType::Cuda};

}  // namespace
}  // namespace hugectr::cuda
