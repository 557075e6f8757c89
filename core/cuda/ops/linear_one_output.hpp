// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/ops/linear.hpp"

/// Linear with one output column (m 1), the last layer of a ranking model: a product that reads x
/// once and computes next to nothing. Matrix kernels would waste seven eighths of their tiles.
namespace hugectr::cuda {

/// y = act(x w + addend + b), a warp a row. Floor: reads x.
void one_output_forward(const OpContext& context, const LinearFwd& op);

/// Whether one_output_backward() takes the op: its sums must fit into the workspace.
bool takes_one_output_backward(const OpContext& context, const LinearBwd& op);

/// All of LinearBwd in one pass over x. Floor: reads x, writes dx.
void one_output_backward(const OpContext& context, const LinearBwd& op);

}  // namespace hugectr::cuda
