// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/network_arrays.hpp"

#include "core/cpp/model/network.hpp"

namespace hugectr {

std::vector<NetworkArray> network_arrays(const NetworkGraph& graph) {
  namespace names = network_array_names;
  constexpr auto kFloat = TensorScalarType::Float32;
  constexpr auto kCount = TensorScalarType::Int64;
  const NetworkOptions& options = graph.options();
  const std::size_t count = graph.layout().flat_size();
  std::size_t untrained = 0;
  for (const NonTrainable& tensor : graph.non_trainables()) untrained += num_elements(tensor.shape);

  std::vector<NetworkArray> arrays{{names::kWeights, {count}, kFloat}};
  if (options.in_16_bits()) arrays.push_back({names::kWeights16, {count}, options.compute_dtype});
  arrays.push_back({names::kStatistics, {untrained}, kFloat});
  arrays.push_back({names::kScalars, {sizeof(StepScalars)}, TensorScalarType::UInt8});
  arrays.push_back({names::kLossEval, {1}, kFloat});
  arrays.push_back({names::kSampleWeightEval, {options.local_batch_eval}, kFloat});
  arrays.push_back({names::kNotFinite, {1}, kFloat});
  if (graph.trains()) {
    arrays.push_back({names::kWgrad, {count}, kFloat});
    arrays.push_back({names::kStates, {graph.state_count(), count}, kFloat});
    arrays.push_back({names::kLoss, {1}, kFloat});
    arrays.push_back({names::kSampleWeight, {options.local_batch}, kFloat});
  }
  if (graph.scales_loss()) {
    arrays.push_back({names::kLossScale, {1}, kFloat});
    arrays.push_back({names::kOverflow, {1}, kFloat});
    arrays.push_back({names::kGoodSteps, {1}, kCount});
    arrays.push_back({names::kSkippedSteps, {1}, kCount});
  }
  if (graph.unscales()) arrays.push_back({names::kUnscale, {1}, kFloat});
  if (graph.clips_norm()) arrays.push_back({names::kSquares, {2}, TensorScalarType::Float64});
  return arrays;
}

}  // namespace hugectr
