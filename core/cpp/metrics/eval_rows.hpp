// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// One device's rows of an evaluation batch. Scores are what ranks the samples, (b, 1) of any float
/// type: logits, not probabilities, which saturate. Labels: (b, 1) float32. Weights: (b) float32, 0
/// for padding and skipped samples. Predictions: (b, 1) float32, and groups, (b, 1) float32, may be
/// absent where no metric takes them, and so may scores of more than two classes. Logits: (b, n) of
/// any float type, what chooses a class. Rows of all but weights may be strided.
struct EvalRows {
  TensorRef scores, labels, weights;
  TensorRef predictions{}, groups{}, logits{};
};

/// Uninitialised memory of a metric on a device.
template <class T>
Tensor2<T> metric_tensor(GPUResource& gpu, const Shape& shape, const char* name) {
  const auto buffer = DeviceBuffer2::create(concat("evaluation on ", to_string(gpu.device())),
                                            DeviceAllocator(gpu.memory_resource()));
  Tensor2<T> tensor;
  buffer->reserve(shape, &tensor, name);
  buffer->allocate();
  return tensor;
}

}  // namespace hugectr
