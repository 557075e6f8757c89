// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/row_times.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

template <class Key>
__global__ void sample_times_kernel(std::size_t samples, const Key* __restrict__ keys,
                                    const std::uint32_t* __restrict__ offsets,
                                    std::uint32_t* __restrict__ times) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < samples;
       i += step) {
    std::uint32_t latest = 0;
    for (std::uint32_t k = offsets[i]; k < offsets[i + 1]; ++k) {
      const std::uint32_t time = time_of_key(keys[k]);
      latest = time > latest ? time : latest;
    }
    times[i] = latest;
  }
}

// The last use is the lower half of a score, the first in memory. Most keys of a batch find the
// latest time there: they read and do not write.
__global__ void note_times_kernel(std::size_t n, const std::uint32_t* __restrict__ rows,
                                  const std::uint32_t* __restrict__ buckets,
                                  const std::uint32_t* __restrict__ times, std::uint64_t* scores,
                                  std::uint32_t sample_buckets) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t k = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < n;
       k += step) {
    if (rows[k] == kNoRow) continue;
    const std::uint32_t time = times[buckets[k] / sample_buckets];
    auto* const last = reinterpret_cast<unsigned*>(scores + rows[k]);
    if (*static_cast<volatile unsigned*>(last) < time) atomicMax(last, time);
  }
}

__global__ void latest_use_kernel(std::size_t rows, const std::uint64_t* __restrict__ scores,
                                  unsigned long long* latest) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned own = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows;
       i += step) {
    const auto last = static_cast<unsigned>(score_step(scores[i]));
    own = last > own ? last : own;
  }
  own = __reduce_max_sync(0xFFFFFFFFu, own);
  if (threadIdx.x % 32 == 0 && own > 0) atomicMax(latest, static_cast<unsigned long long>(own));
}

void sample_times(const OpContext& context, const SampleTimes& op) {
  const std::size_t samples = op.times.size();
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    launch(context, SampleTimes::kName, dim3(grid_for(samples, kThreads)), dim3(kThreads), 0,
           &sample_times_kernel<Key>, samples, op.keys.ptr<Key>(),
           op.row_offsets.ptr<std::uint32_t>(), op.times.ptr<std::uint32_t>());
  });
}

void note_times(const OpContext& context, const NoteTimes& op) {
  const std::size_t n = op.rows.size();
  launch(context, NoteTimes::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &note_times_kernel, n, op.rows.ptr<std::uint32_t>(), op.buckets.ptr<std::uint32_t>(),
         op.times.ptr<std::uint32_t>(), op.scores.ptr<std::uint64_t>(),
         static_cast<std::uint32_t>(op.sample_buckets));
}

void latest_use(const OpContext& context, const LatestUse& op) {
  check_status(
      cudaMemsetAsync(op.latest.data, 0, op.latest.size_in_bytes(), native_stream(context)),
      LatestUse::kName, __FILE__, __LINE__);
  const std::size_t rows = op.scores.size();
  launch(context, LatestUse::kName, dim3(grid_for(rows, kThreads)), dim3(kThreads), 0,
         &latest_use_kernel, rows, op.scores.ptr<std::uint64_t>(),
         reinterpret_cast<unsigned long long*>(op.latest.ptr<std::int64_t>()));
}

const OpRegistration<SampleTimes> sample_times_cuda{DeviceType::Cuda, &sample_times};
const OpRegistration<NoteTimes> note_times_cuda{DeviceType::Cuda, &note_times};
const OpRegistration<LatestUse> latest_use_cuda{DeviceType::Cuda, &latest_use};

}  // namespace
}  // namespace hugectr::cuda
