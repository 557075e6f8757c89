// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/row_requests.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/host_numbers.cuh"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kPlacesPerThread = 8;

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

struct Runs {
  Starts starts;
  const std::uint32_t* offsets;
  std::uint32_t* run_offsets;
  std::size_t runs;
  std::uint32_t n;

  Runs(const PlaceRequests& op, const std::int64_t* numbers)
      : starts{numbers, numbers + op.row_starts.size(), op.row_starts.size()},
        offsets(op.offsets.ptr<std::uint32_t>()),
        run_offsets(op.run_offsets.ptr<std::uint32_t>()),
        runs(op.offsets.size()),
        n(static_cast<std::uint32_t>(op.keys.size())) {}
  unsigned blocks() const { return grid_for(runs + 1, kThreads); }

  __device__ void rebase() const {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; u <= runs;
         u += step) {
      if (u == runs) {
        run_offsets[u] = n;
      } else {
        const std::size_t owner = last_not_above(starts.rows, starts.owners, u);
        run_offsets[u] = offsets[u] - offsets[starts.rows[owner]] +
                         static_cast<std::uint32_t>(starts.keys[owner]);
      }
    }
  }
};

struct Places {
  const std::uint32_t *run_offsets, *keys, *row_offsets, *buckets;
  std::uint32_t *numbers, *sorted_buckets;
  std::size_t runs, n;

  explicit Places(const PlaceRequests& op)
      : run_offsets(op.run_offsets.ptr<std::uint32_t>()),
        keys(op.keys.ptr<std::uint32_t>()),
        row_offsets(op.row_offsets.ptr<std::uint32_t>()),
        buckets(op.buckets.ptr<std::uint32_t>()),
        numbers(op.numbers.ptr<std::uint32_t>()),
        sorted_buckets(op.sorted_buckets.ptr<std::uint32_t>()),
        runs(op.offsets.size()),
        n(op.keys.size()) {}
  unsigned blocks() const { return grid_for(n, kThreads * kPlacesPerThread); }

  // A block takes neighbouring places: two searches over all runs give those it meets, and each
  // place is then looked for among these. Runs of a power law have 1 to 10^5 places, so neither a
  // thread nor a warp a run would do. Reads 8 bytes a key, writes 8, half of them in no order.
  __device__ void place() const {
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
};

__global__ void rebase_runs_kernel(Runs runs) { runs.rebase(); }
__global__ void rebase_many_runs_kernel(const __grid_constant__ Many<Runs> many) {
  many.mine().rebase();
}
__global__ void place_requests_kernel(Places places) { places.place(); }
__global__ void place_many_requests_kernel(const __grid_constant__ Many<Places> many) {
  many.mine().place();
}

void add_starts(const PlaceRequests& op, std::vector<std::int64_t>& numbers) {
  numbers.insert(numbers.end(), op.row_starts.begin(), op.row_starts.end());
  numbers.insert(numbers.end(), op.key_starts.begin(), op.key_starts.end());
}

void place_requests(const OpContext& context, const PlaceRequests& op) {
  std::vector<std::int64_t> numbers;
  add_starts(op, numbers);
  const HostNumbers starts(context, numbers);
  const Runs runs(op, starts.data());
  launch(context, PlaceRequests::kName, dim3(runs.blocks()), dim3(kThreads), 0, &rebase_runs_kernel,
         runs);
  const Places places(op);
  launch(context, PlaceRequests::kName, dim3(places.blocks()), dim3(kThreads), 0,
         &place_requests_kernel, places);
}

void place_many_requests(const OpContext& context, const Several<PlaceRequests>& several) {
  constexpr const char* kName = PlaceRequests::kSeveralName;
  std::vector<std::int64_t> numbers;
  for (const PlaceRequests& op : several.ops) add_starts(op, numbers);
  const HostNumbers starts(context, numbers);
  const std::int64_t* next = starts.data();
  std::vector<Runs> runs;
  for (const PlaceRequests& op : several.ops) {
    runs.emplace_back(op, next);
    next += 2 * op.row_starts.size();
  }
  launch_many<Runs>(context, kName, runs, dim3(kThreads), &rebase_many_runs_kernel,
                    [](const Runs& args) { return args.blocks(); });
  const std::vector<Places> places(several.ops.begin(), several.ops.end());
  launch_many<Places>(context, kName, places, dim3(kThreads), &place_many_requests_kernel,
                      [](const Places& args) { return args.blocks(); });
}

const OpRegistration<PlaceRequests> place_requests_cuda{DeviceType::Cuda, &place_requests};
const SeveralRegistration<PlaceRequests> several_place_requests_cuda{DeviceType::Cuda,
                                                                     &place_many_requests};

}  // namespace
}  // namespace hugectr::cuda
