// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/cpp/base/scalar_type.hpp"
#include "core/cpp/base/shape.hpp"
#include "core/cpp/model/network_graph.hpp"

namespace hugectr {

/// An array of a network on a device, besides what its schedules have.
struct NetworkArray {
  const char* name;
  Shape shape;
  TensorScalarType dtype;
};

namespace network_array_names {
inline constexpr const char* kWeights = "dense weights";
inline constexpr const char* kWeights16 = "16-bit dense weights";
inline constexpr const char* kStatistics = "running statistics";
inline constexpr const char* kScalars = "step scalars";
inline constexpr const char* kLossEval = "evaluation loss";
inline constexpr const char* kSampleWeightEval = "evaluation sample weights";
inline constexpr const char* kNotFinite = "flag of weights that are not finite";
inline constexpr const char* kWgrad = "dense gradients";
inline constexpr const char* kStates = "dense optimizer states";
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kSampleWeight = "sample weights";
inline constexpr const char* kLossScale = "loss scale";
inline constexpr const char* kUnscale = "factor of gradients";
inline constexpr const char* kOverflow = "overflow flag";
inline constexpr const char* kGoodSteps = "steps without overflow";
inline constexpr const char* kSkippedSteps = "skipped steps";
inline constexpr const char* kSquares = "squares of gradients";
}  // namespace network_array_names

/// All of them, in the order of their arena: what Network takes and a footprint counts.
std::vector<NetworkArray> network_arrays(const NetworkGraph& graph);

}  // namespace hugectr
