// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch.hpp"

/// Host numbers that an op comes with, where its kernels find them: they travel as parameters of a
/// launch, so they may go as soon as that returns and nothing waits.
namespace hugectr::cuda {
namespace host_numbers {

constexpr std::size_t kMost = 480;  // the parameters of a launch are 4 KB at most

struct Piece {
  std::int64_t numbers[kMost];
};

inline __global__ void copy_kernel(std::int64_t* to, const __grid_constant__ Piece piece,
                                   unsigned count) {
  if (threadIdx.x < count) to[threadIdx.x] = piece.numbers[threadIdx.x];
}

}  // namespace host_numbers

class HostNumbers {
 public:
  HostNumbers(const OpContext& context, const std::vector<std::int64_t>& numbers)
      : scratch_(context, numbers.size() * sizeof(std::int64_t)) {
    for (std::size_t at = 0; at < numbers.size(); at += host_numbers::kMost) {
      const std::size_t count = std::min(host_numbers::kMost, numbers.size() - at);
      host_numbers::Piece piece{};
      std::memcpy(piece.numbers, numbers.data() + at, count * sizeof(std::int64_t));
      launch(context, "host_numbers", dim3(1), dim3(host_numbers::kMost), 0,
             &host_numbers::copy_kernel, data() + at, piece, static_cast<unsigned>(count));
    }
  }
  std::int64_t* data() const { return static_cast<std::int64_t*>(scratch_.data()); }

 private:
  Scratch scratch_;
};

}  // namespace hugectr::cuda
