// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cpp/layers/layer.hpp"

/// Statistics of a column over the real rows of the GLOBAL batch, as BatchNorm and PReLU_Dice take
/// them: all dimensions but the last are rows, padding samples take no part.
namespace hugectr {

struct BatchStatistics {
  TensorRef sums;  ///< the last one is the number of rows
  TensorRef mean, mean_low, var;
};

/// What follows the batches' statistics; empty refs where nothing does.
struct RunningStatistics {
  TensorRef mean, mean_low, var;
  double factor = 1.0;  ///< weight of the batch
};

/// Appends the forward records. Scratch is "<layer>@sums" and so on.
BatchStatistics append_batch_statistics(LayerBuilder& builder, const std::string& layer,
                                        const TensorRef& x, const RunningStatistics& running = {});

/// Float64 scratch "<layer>@<what>".
TensorRef scratch_of_doubles(LayerBuilder& builder, const std::string& layer,
                             const std::string& what, const Shape& shape);

}  // namespace hugectr
