// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>

#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/block_sum.cuh"

/// Metrics of sorted samples: a key and a value each, sums over the runs of equal keys.
namespace hugectr::cuda {

/// Unsigned numbers in the order of the floats; -0 and 0 are one.
__device__ inline std::uint32_t ordered_bits(float value) {
  const std::uint32_t bits = value == 0.0f ? 0u : __float_as_uint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// Key-value pairs that are sorted in place of one another.
template <class Key>
class SortedPairs {
 public:
  SortedPairs(const OpContext& context, std::size_t n)
      : keys_(context, 2 * n * sizeof(Key)),
        values_(context, 2 * n * sizeof(float)),
        key_(static_cast<Key*>(keys_.data()), static_cast<Key*>(keys_.data()) + n),
        value_(static_cast<float*>(values_.data()), static_cast<float*>(values_.data()) + n),
        n_(n) {}

  Key* keys() { return key_.Current(); }
  float* values() { return value_.Current(); }

  void sort(const OpContext& context) {
    const auto run = [&](void* storage, std::size_t& bytes) {
      HCTR_TRY(cub::DeviceRadixSort::SortPairs(storage, bytes, key_, value_, n_, 0,
                                               8 * static_cast<int>(sizeof(Key)),
                                               native_stream(context)));
    };
    std::size_t bytes = 0;
    run(nullptr, bytes);
    const Scratch storage(context, bytes);
    run(storage.data(), bytes);
  }

 private:
  Scratch keys_, values_;
  cub::DoubleBuffer<Key> key_;
  cub::DoubleBuffer<float> value_;
  std::size_t n_;
};

inline constexpr unsigned kRunThreads = 256;
inline constexpr unsigned kRunBlocks = 128;

/// Two sums a block over the runs that begin in its piece. The thread at the head of a run goes
/// through it. `runs`: begins(i), whether a run begins at i < n; add(i, first, second), what the
/// run that begins there adds to the sums.
template <class Runs>
__global__ void __launch_bounds__(kRunThreads)
    run_sums_kernel(Runs runs, std::size_t n, double* partial) {
  const std::size_t piece = (n + kRunBlocks - 1) / kRunBlocks;
  const std::size_t begin = blockIdx.x * piece;
  const std::size_t end = begin + piece < n ? begin + piece : n;
  double first = 0.0, second = 0.0;
  for (std::size_t i = begin + threadIdx.x; i < end; i += kRunThreads) {
    if (runs.begins(i)) runs.add(i, first, second);
  }
  first = block_sum<kRunThreads>(first);
  __syncthreads();
  second = block_sum<kRunThreads>(second);
  if (threadIdx.x != 0) return;
  partial[2 * blockIdx.x] = first;
  partial[2 * blockIdx.x + 1] = second;
}

/// One warp: totals[0] and totals[1].
__global__ inline void run_totals_kernel(const double* partial, double* totals) {
  for (unsigned k = 0; k < 2; ++k) {
    double sum = 0.0;
    for (unsigned i = threadIdx.x; i < kRunBlocks; i += 32) sum += partial[2 * i + k];
    sum = group_sum<32>(sum);
    if (threadIdx.x == 0) totals[k] = sum;
  }
}

/// The two sums over all runs, in a fixed order. totals: 2 float64 on the device.
template <class Runs>
void sum_runs(const OpContext& context, const char* name, const Runs& runs, std::size_t n,
              double* totals) {
  const Scratch partial(context, 2 * kRunBlocks * sizeof(double));
  auto* const parts = static_cast<double*>(partial.data());
  launch(context, name, dim3(kRunBlocks), dim3(kRunThreads), 0, &run_sums_kernel<Runs>, runs, n,
         parts);
  launch(context, name, dim3(1), dim3(32), 0, &run_totals_kernel, parts, totals);
}

}  // namespace hugectr::cuda
