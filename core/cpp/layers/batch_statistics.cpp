// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/batch_statistics.hpp"

#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {

TensorRef scratch_of_doubles(LayerBuilder& builder, const std::string& layer,
                             const std::string& what, const Shape& shape) {
  return builder.scratch(layer + "@" + what, shape, TensorScalarType::Float64);
}

BatchStatistics append_batch_statistics(LayerBuilder& builder, const std::string& layer,
                                        const TensorRef& x, const RunningStatistics& running) {
  const std::size_t n = x.shape.back(), rows = partial_rows(last_axis_rows(x).rows());
  builder.mark_samples_meet();
  const TensorRef weight = builder.external(schedule_names::kSampleWeight);
  const auto doubles = [&](const char* what, const Shape& shape) {
    return scratch_of_doubles(builder, layer, what, shape);
  };
  BatchStatistics result;
  result.sums = doubles("sums", {n + 1});
  const TensorRef squares = doubles("squares", {n});
  result.mean = builder.scratch(layer + "@mean", {n});
  result.mean_low = builder.scratch(layer + "@mean_low", {n});
  result.var = builder.scratch(layer + "@var", {n});
  builder.forward(BatchNormSums{.x = x,
                                .weight = weight,
                                .sums = result.sums,
                                .partial = doubles("sums_partial", {rows, n + 1})},
                  layer);
  if (builder.info().devices > 1) builder.forward(AllReduce{.data = result.sums}, layer);
  builder.forward(BatchNormSquares{.x = x,
                                   .weight = weight,
                                   .sums = result.sums,
                                   .squares = squares,
                                   .partial = doubles("squares_partial", {rows, n})},
                  layer);
  if (builder.info().devices > 1) builder.forward(AllReduce{.data = squares}, layer);
  builder.forward(BatchNormStatistics{.sums = result.sums,
                                      .squares = squares,
                                      .mean = result.mean,
                                      .mean_low = result.mean_low,
                                      .var = result.var,
                                      .running_mean = running.mean,
                                      .running_mean_low = running.mean_low,
                                      .running_var = running.var,
                                      .factor = running.factor},
                  layer);
  return result;
}

}  // namespace hugectr
