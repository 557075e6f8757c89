// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/metrics/entry.hpp"
#include "core/cpp/metrics/eval_rows.hpp"

namespace hugectr {

/// Scores, labels and weights of all samples of an evaluation, and their groups if asked for: kept
/// where they are computed, 4 bytes each, and put together at its end.
class KeptSamples {
 public:
  KeptSamples(std::size_t devices, bool groups) : arrays_(groups ? 4 : 3), of_device_(devices) {}

  /// Keeps a device's rows, in stream order of its compute stream; a thread a device.
  void add(GPUResource& gpu, const EvalRows& rows);
  /// The samples of all devices of the job, on the first device of this process: those of a single
  /// device stay where they are, those of several go through the host. Valid until the next add().
  /// Collective; waits for the devices.
  SampleArrays gather(ResourceManager& resources);
  /// Starts anew. Memory is kept: the next evaluation has as many samples.
  void clear();

 private:
  /// Room for some samples on one device: one array behind the other.
  struct Block {
    Tensor2<float> values;  ///< (arrays, capacity)
    std::size_t used = 0;
    std::size_t capacity() const {
      return values.allocated() ? values.get_dimensions()[1] : std::size_t{0};
    }
    /// Samples [first, first + count) of array k.
    TensorRef part(std::size_t k, std::size_t first, std::size_t count) const;
    SampleArrays arrays() const;
  };
  using HostArrays = std::vector<std::vector<float>>;

  Block make_block(GPUResource& gpu, std::size_t capacity) const;
  HostArrays on_host(ResourceManager& resources) const;
  /// All samples of the first device in one block.
  void join_blocks(GPUResource& gpu);

  std::size_t arrays_;
  std::vector<std::vector<Block>> of_device_;
  Block gathered_;  ///< of several devices, on the first one
};

}  // namespace hugectr
