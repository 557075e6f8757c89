// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/cpp/layers/layer.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// Micro-batches of a step at most.
inline constexpr std::size_t kMostMicroBatches = 8;

/// Scalars of one step, written before its records run, all with one copy.
struct StepScalars {
  std::int64_t step = 1;        ///< update number, from 1
  std::int64_t dense_step = 1;  ///< the same without steps that the dense weights were frozen in
  /// Global row of this device's first row, and of the first of each further micro-batch.
  std::array<std::int64_t, kMostMicroBatches> first_samples{};
  float lr = 0.0f;
  float inv_weight_sum = 0.0f;  ///< 1 / samples of the global batch that count
};

/// A field of StepScalars that lie on the device in `scalars`.
inline TensorRef step_scalar(TensorRef scalars, std::size_t offset, TensorScalarType dtype) {
  scalars.data = static_cast<char*>(scalars.data) + offset;
  scalars.dtype = dtype;
  scalars.shape = {1};
  scalars.row_stride = 1;
  return scalars;
}

/// The fields as the records of a schedule with so many micro-batches know them.
inline std::map<std::string, TensorRef> step_scalar_refs(const TensorRef& scalars,
                                                         std::size_t micro_batches = 1) {
  namespace names = schedule_names;
  constexpr auto kFloat = TensorScalarType::Float32, kInt = TensorScalarType::Int64;
  TensorRef first = step_scalar(scalars, offsetof(StepScalars, first_samples), kInt);
  first.shape = {micro_batches};
  return {
      {names::kInvWeightSum, step_scalar(scalars, offsetof(StepScalars, inv_weight_sum), kFloat)},
      {names::kStep, step_scalar(scalars, offsetof(StepScalars, step), kInt)},
      {names::kDenseStep, step_scalar(scalars, offsetof(StepScalars, dense_step), kInt)},
      {names::kFirstSample, first},
      {names::kLearningRate, step_scalar(scalars, offsetof(StepScalars, lr), kFloat)},
  };
}

}  // namespace hugectr
