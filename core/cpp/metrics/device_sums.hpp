// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/metrics/eval_rows.hpp"

namespace hugectr {

/// A few float64 sums on each device of this process, merged over those of the job.
class DeviceSums {
 public:
  /// `count` sums on each of `devices`.
  DeviceSums(std::size_t count, std::size_t devices) : count_(count), of_device_(devices) {}

  /// The device's sums, to be added to on its compute stream; they begin with 0.
  TensorRef of(GPUResource& gpu);
  /// The sums over all devices of the job, added in the order of the devices, so that their number
  /// of processes does not change them. Then starts anew. Collective; waits for the devices.
  std::vector<double> take(ResourceManager& resources);

 private:
  std::size_t count_;
  std::vector<Tensor2<double>> of_device_;
};

}  // namespace hugectr
