// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/row_requests.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch.hpp"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Who asks, by bucket.
struct Askers {
  const std::uint32_t *buckets, *keys;  // keys null: each key has its bucket
  const std::int64_t* of_device;        // null: the device itself
  std::size_t bucket_count;
  std::uint32_t devices, per_part, askers, micro_batches;

  __device__ std::uint32_t of(std::size_t i) const {
    const std::size_t key = keys ? keys[i] : i;
    const std::uint32_t part = key < bucket_count ? buckets[key] / per_part : 0;
    std::uint32_t asker = part;
    if (micro_batches > 1) asker /= micro_batches;
    const std::uint32_t first = micro_batches > 1 ? part % micro_batches * askers : 0;
    if (of_device) asker = asker < devices ? static_cast<std::uint32_t>(of_device[asker]) : 0;
    return first + asker;
  }
};

// Moves 16 bytes a key, and 4 more where keys are looked for.
__global__ void request_rows_kernel(Askers askers, const std::uint32_t* __restrict__ rows,
                                    std::uint32_t* __restrict__ requests,
                                    std::uint32_t* __restrict__ places, std::size_t n,
                                    std::uint32_t row_count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i <= n;
       i += step) {
    if (i < n) requests[i] = askers.of(i) * row_count + rows[i];
    places[i] = static_cast<std::uint32_t>(i);
  }
}

// Copies host numbers that go away, in pieces that a stream takes so.
void copy_numbers(const OpContext& context, std::int64_t* to,
                  const std::vector<std::int64_t>& from) {
  constexpr std::size_t kPiece = 32;
  for (std::size_t at = 0; at < from.size(); at += kPiece) {
    const std::size_t count = std::min(kPiece, from.size() - at);
    context.stream->copy_scalars(to + at, from.data() + at, count * sizeof(std::int64_t));
  }
}

void request_rows(const OpContext& context, const RequestRows& op) {
  const std::size_t n = op.rows.size(), devices = op.asker_of_device.size();
  const Scratch of_device(context, devices * sizeof(std::int64_t));
  copy_numbers(context, static_cast<std::int64_t*>(of_device.data()), op.asker_of_device);
  const Askers askers{op.buckets.ptr<std::uint32_t>(),
                      op.keys.empty() ? nullptr : op.keys.ptr<std::uint32_t>(),
                      devices == 0 ? nullptr : static_cast<std::int64_t*>(of_device.data()),
                      op.buckets.size(),
                      static_cast<std::uint32_t>(devices),
                      static_cast<std::uint32_t>(op.buckets_per_part),
                      static_cast<std::uint32_t>(op.askers),
                      static_cast<std::uint32_t>(op.micro_batches)};
  launch(context, RequestRows::kName, dim3(grid_for(n + 1, kThreads)), dim3(kThreads), 0,
         &request_rows_kernel, askers, op.rows.ptr<std::uint32_t>(),
         op.requests.ptr<std::uint32_t>(), op.places.ptr<std::uint32_t>(), n,
         static_cast<std::uint32_t>(op.row_count));
}

// How many of the sorted numbers are below `bound`.
__device__ std::size_t count_below(const std::uint32_t* sorted, std::size_t size,
                                   std::uint64_t bound) {
  std::size_t low = 0, high = size;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (sorted[middle] < bound) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void count_requests_kernel(const std::uint32_t* __restrict__ requests,
                                      const std::uint32_t* __restrict__ offsets,
                                      const std::int64_t* __restrict__ run_count,
                                      std::uint32_t* __restrict__ rows,
                                      std::int64_t* __restrict__ counts, std::size_t devices,
                                      std::uint32_t row_count) {
  const auto size = static_cast<std::size_t>(*run_count);
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::size_t u = thread; u < size; u += step) rows[u] = requests[u] % row_count;
  for (std::size_t r = thread; r < devices; r += step) {
    const std::size_t first = count_below(requests, size, std::uint64_t{r} * row_count);
    const std::size_t last = count_below(requests, size, std::uint64_t{r + 1} * row_count);
    counts[r] = static_cast<std::int64_t>(last - first);
    counts[devices + r] = size == 0 ? 0 : std::int64_t{offsets[last]} - offsets[first];
  }
}

void count_requests(const OpContext& context, const CountRequests& op) {
  const std::size_t devices = op.counts.shape[1];
  launch(context, CountRequests::kName,
         dim3(grid_for(std::max(op.requests.size(), devices), kThreads)), dim3(kThreads), 0,
         &count_requests_kernel, op.requests.ptr<std::uint32_t>(),
         op.run_offsets.ptr<std::uint32_t>(), op.run_count.ptr<std::int64_t>(),
         op.rows.ptr<std::uint32_t>(), op.counts.ptr<std::int64_t>(), devices,
         static_cast<std::uint32_t>(op.row_count));
}

// Where the rows and keys of each owner begin.
struct Starts {
  const std::int64_t *rows, *keys;
  std::size_t owners;
};

// The last of `count` ascending numbers that is not above `at`; the first never is.
template <class T>
__device__ std::size_t last_not_above(const T* starts, std::size_t count, std::size_t at) {
  std::size_t low = 0, high = count;
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    if (static_cast<std::size_t>(starts[middle]) <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void rebase_runs_kernel(Starts starts, const std::uint32_t* __restrict__ offsets,
                                   std::uint32_t* __restrict__ run_offsets, std::size_t runs,
                                   std::uint32_t n) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u <= runs;
       u += step) {
    if (u == runs) {
      run_offsets[u] = n;
    } else {
      const std::size_t owner = last_not_above(starts.rows, starts.owners, u);
      run_offsets[u] =
          offsets[u] - offsets[starts.rows[owner]] + static_cast<std::uint32_t>(starts.keys[owner]);
    }
  }
}

constexpr unsigned kPlacesPerThread = 8;

// A block takes neighbouring places: two searches over all runs give those it meets, and each place
// is then looked for among these. Runs of a power law have 1 to 10^5 places, so neither a thread
// nor a warp a run would do. Reads 8 bytes a key, writes 8, half of them in no order.
__global__ void place_requests_kernel(const std::uint32_t* __restrict__ run_offsets,
                                      const std::uint32_t* __restrict__ keys,
                                      const std::uint32_t* __restrict__ row_offsets,
                                      const std::uint32_t* __restrict__ buckets,
                                      std::uint32_t* __restrict__ numbers,
                                      std::uint32_t* __restrict__ sorted_buckets, std::size_t runs,
                                      std::size_t n) {
  __shared__ std::size_t ends[2];
  const std::uint32_t first_key = row_offsets[0];
  const std::size_t step = std::size_t{blockDim.x} * kPlacesPerThread;
  for (std::size_t begin = blockIdx.x * step; begin < n; begin += gridDim.x * step) {
    const std::size_t end = min(begin + step, n);
    __syncthreads();  // the last turn's threads have read the ends
    if (threadIdx.x < 2) {
      ends[threadIdx.x] = last_not_above(run_offsets, runs, threadIdx.x == 0 ? begin : end - 1);
    }
    __syncthreads();
    const std::size_t first = ends[0], count = ends[1] - first + 1;
    for (std::size_t j = begin + threadIdx.x; j < end; j += blockDim.x) {
      const std::uint32_t i = keys[j] - first_key;
      if (i >= n) continue;  // what a collective that was aborted has left
      numbers[i] =
          static_cast<std::uint32_t>(first + last_not_above(run_offsets + first, count, j));
      sorted_buckets[j] = buckets[i];
    }
  }
}

void place_requests(const OpContext& context, const PlaceRequests& op) {
  const std::size_t runs = op.offsets.size(), n = op.keys.size(), owners = op.row_starts.size();
  constexpr std::size_t kPiece = 32;  // numbers that a stream takes from memory that goes away
  const Scratch starts(context, 2 * owners * sizeof(std::int64_t));
  auto* const rows = static_cast<std::int64_t*>(starts.data());
  for (std::size_t at = 0; at < owners; at += kPiece) {
    const std::size_t bytes = std::min(kPiece, owners - at) * sizeof(std::int64_t);
    context.stream->copy_scalars(rows + at, op.row_starts.data() + at, bytes);
    context.stream->copy_scalars(rows + owners + at, op.key_starts.data() + at, bytes);
  }
  auto* const run_offsets = op.run_offsets.ptr<std::uint32_t>();
  launch(context, PlaceRequests::kName, dim3(grid_for(runs + 1, kThreads)), dim3(kThreads), 0,
         &rebase_runs_kernel, Starts{rows, rows + owners, owners}, op.offsets.ptr<std::uint32_t>(),
         run_offsets, runs, static_cast<std::uint32_t>(n));
  launch(context, PlaceRequests::kName, dim3(grid_for(n, kThreads * kPlacesPerThread)),
         dim3(kThreads), 0, &place_requests_kernel, run_offsets, op.keys.ptr<std::uint32_t>(),
         op.row_offsets.ptr<std::uint32_t>(), op.buckets.ptr<std::uint32_t>(),
         op.numbers.ptr<std::uint32_t>(), op.sorted_buckets.ptr<std::uint32_t>(), runs, n);
}

__global__ void rebase_offsets_kernel(const std::uint32_t* __restrict__ offsets,
                                      std::uint32_t* __restrict__ own, std::size_t n) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    own[i] = offsets[i] - offsets[0];
  }
}

void rebase_offsets(const OpContext& context, const RebaseOffsets& op) {
  const std::size_t n = op.own_offsets.size();
  launch(context, RebaseOffsets::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &rebase_offsets_kernel, op.row_offsets.ptr<std::uint32_t>(),
         op.own_offsets.ptr<std::uint32_t>(), n);
}

const OpRegistration<RequestRows> request_rows_cuda{DeviceType::Cuda, &request_rows};
const SeveralRegistration<RequestRows> several_request_rows_cuda{DeviceType::Cuda};
const OpRegistration<CountRequests> count_requests_cuda{DeviceType::Cuda, &count_requests};
const SeveralRegistration<CountRequests> several_count_requests_cuda{DeviceType::Cuda};
const OpRegistration<PlaceRequests> place_requests_cuda{DeviceType::Cuda, &place_requests};
const SeveralRegistration<PlaceRequests> several_place_requests_cuda{DeviceType::Cuda};
const OpRegistration<RebaseOffsets> rebase_offsets_cuda{DeviceType::Cuda, &rebase_offsets};
const SeveralRegistration<RebaseOffsets> several_rebase_offsets_cuda{DeviceType::Cuda};

}  // namespace
}  // namespace hugectr::cuda
