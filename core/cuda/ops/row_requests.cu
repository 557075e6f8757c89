// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/row_requests.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/host_numbers.cuh"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Who asks, by bucket.
struct Askers {
  const std::uint32_t *buckets, *keys;  // keys null: each key has its bucket
  const std::int64_t* of_device;        // null: the device itself
  std::size_t bucket_count;
  std::uint32_t devices, per_part, askers, micro_batches;

  Askers(const RequestRows& op, const std::int64_t* numbers)
      : buckets(op.buckets.ptr<std::uint32_t>()),
        keys(op.keys.empty() ? nullptr : op.keys.ptr<std::uint32_t>()),
        of_device(op.asker_of_device.empty() ? nullptr : numbers),
        bucket_count(op.buckets.size()),
        devices(static_cast<std::uint32_t>(op.asker_of_device.size())),
        per_part(static_cast<std::uint32_t>(op.buckets_per_part)),
        askers(static_cast<std::uint32_t>(op.askers)),
        micro_batches(static_cast<std::uint32_t>(op.micro_batches)) {}

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

struct Requests {
  Askers who;
  const std::uint32_t* rows;
  std::uint32_t *requests, *places;
  std::size_t n;
  std::uint32_t row_count;

  Requests(const RequestRows& op, const std::int64_t* asker_of_device)
      : who(op, asker_of_device),
        rows(op.rows.ptr<std::uint32_t>()),
        requests(op.requests.ptr<std::uint32_t>()),
        places(op.places.ptr<std::uint32_t>()),
        n(op.rows.size()),
        row_count(static_cast<std::uint32_t>(op.row_count)) {}
  unsigned blocks() const { return grid_for(n + 1, kThreads); }

  // Moves 16 bytes a key, and 4 more where keys are looked for.
  __device__ void take() const {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i <= n;
         i += step) {
      if (i < n) requests[i] = who.of(i) * row_count + rows[i];
      places[i] = static_cast<std::uint32_t>(i);
    }
  }
};

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

struct Counts {
  const std::uint32_t *requests, *offsets;
  const std::int64_t* run_count;
  std::uint32_t* rows;
  std::int64_t* counts;
  std::size_t most, askers;
  std::uint32_t row_count;

  explicit Counts(const CountRequests& op)
      : requests(op.requests.ptr<std::uint32_t>()),
        offsets(op.run_offsets.ptr<std::uint32_t>()),
        run_count(op.run_count.ptr<std::int64_t>()),
        rows(op.rows.ptr<std::uint32_t>()),
        counts(op.counts.ptr<std::int64_t>()),
        most(op.requests.size()),
        askers(op.counts.shape[1]),
        row_count(static_cast<std::uint32_t>(op.row_count)) {}
  unsigned blocks() const { return grid_for(std::max(most, askers), kThreads); }

  __device__ void take() const {
    const auto size = static_cast<std::size_t>(*run_count);
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (std::size_t u = thread; u < size; u += step) rows[u] = requests[u] % row_count;
    for (std::size_t r = thread; r < askers; r += step) {
      const std::size_t first = count_below(requests, size, std::uint64_t{r} * row_count);
      const std::size_t last = count_below(requests, size, std::uint64_t{r + 1} * row_count);
      counts[r] = static_cast<std::int64_t>(last - first);
      counts[askers + r] = size == 0 ? 0 : std::int64_t{offsets[last]} - offsets[first];
    }
  }
};

struct Offsets {
  const std::uint32_t* offsets;
  std::uint32_t* own;
  std::size_t n;

  explicit Offsets(const RebaseOffsets& op)
      : offsets(op.row_offsets.ptr<std::uint32_t>()),
        own(op.own_offsets.ptr<std::uint32_t>()),
        n(op.own_offsets.size()) {}
  unsigned blocks() const { return grid_for(n, kThreads); }

  __device__ void take() const {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
         i += step) {
      own[i] = offsets[i] - offsets[0];
    }
  }
};

template <class Args>
__global__ void take_kernel(Args args) {
  args.take();
}
template <class Args>
__global__ void take_many_kernel(const __grid_constant__ Many<Args> many) {
  many.mine().take();
}

template <class Args>
void take(const OpContext& context, const char* name, const Args& args) {
  launch(context, name, dim3(args.blocks()), dim3(kThreads), 0, &take_kernel<Args>, args);
}
template <class Args>
void take_many(const OpContext& context, const char* name, const std::vector<Args>& all) {
  launch_many<Args>(context, name, all, dim3(kThreads), &take_many_kernel<Args>,
                    [](const Args& args) { return args.blocks(); });
}

void request_rows(const OpContext& context, const RequestRows& op) {
  const HostNumbers askers(context, op.asker_of_device);
  take(context, RequestRows::kName, Requests(op, askers.data()));
}
void request_many_rows(const OpContext& context, const Several<RequestRows>& several) {
  std::vector<std::int64_t> numbers;
  for (const RequestRows& op : several.ops) {
    numbers.insert(numbers.end(), op.asker_of_device.begin(), op.asker_of_device.end());
  }
  const HostNumbers askers(context, numbers);
  const std::int64_t* next = askers.data();
  std::vector<Requests> all;
  for (const RequestRows& op : several.ops) {
    all.emplace_back(op, next);
    next += op.asker_of_device.size();
  }
  take_many(context, RequestRows::kSeveralName, all);
}

void count_requests(const OpContext& context, const CountRequests& op) {
  take(context, CountRequests::kName, Counts(op));
}
void count_many_requests(const OpContext& context, const Several<CountRequests>& several) {
  take_many(context, CountRequests::kSeveralName,
            std::vector<Counts>(several.ops.begin(), several.ops.end()));
}

void rebase_offsets(const OpContext& context, const RebaseOffsets& op) {
  take(context, RebaseOffsets::kName, Offsets(op));
}
void rebase_many_offsets(const OpContext& context, const Several<RebaseOffsets>& several) {
  take_many(context, RebaseOffsets::kSeveralName,
            std::vector<Offsets>(several.ops.begin(), several.ops.end()));
}

const OpRegistration<RequestRows> request_rows_cuda{DeviceType::Cuda, &request_rows};
const SeveralRegistration<RequestRows> several_request_rows_cuda{DeviceType::Cuda,
                                                                 &request_many_rows};
const OpRegistration<CountRequests> count_requests_cuda{DeviceType::Cuda, &count_requests};
const SeveralRegistration<CountRequests> several_count_requests_cuda{DeviceType::Cuda,
                                                                     &count_many_requests};
const OpRegistration<RebaseOffsets> rebase_offsets_cuda{DeviceType::Cuda, &rebase_offsets};
const SeveralRegistration<RebaseOffsets> several_rebase_offsets_cuda{DeviceType::Cuda,
                                                                     &rebase_many_offsets};

}  // namespace
}  // namespace hugectr::cuda
