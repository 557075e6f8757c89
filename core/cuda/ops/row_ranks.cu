// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/row_ranks.hpp"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Reads 8 bytes of score and a key a row, once a digit: a table is looked at a few times per
// eviction. Rows of a warp often have one digit (those of a step, or the upper digits of all): they
// are added as one.
template <class Key>
__global__ void count_ranks_kernel(RankedRows<Key> ranked, std::size_t rows, int word, int shift,
                                   unsigned long long* counts) {
  __shared__ unsigned own[kRankDigits];
  for (std::size_t i = threadIdx.x; i < kRankDigits; i += blockDim.x) own[i] = 0;
  __syncthreads();
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t rounds = (rows + step - 1) / step;  // the same in all threads of a warp
  std::size_t row = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::size_t round = 0; round < rounds; ++round, row += step) {
    const bool there = row < rows && ranked.keys[row] != kEmptyKey<Key>;
    const int digit = there ? ranked.digit(word, shift, row) : -1;
    const unsigned same = __match_any_sync(0xFFFFFFFFu, digit);
    const bool first = static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(same)) - 1;
    if (digit >= 0 && first) atomicAdd(&own[digit], static_cast<unsigned>(__popc(same)));
  }
  __syncthreads();
  for (std::size_t i = threadIdx.x; i < kRankDigits; i += blockDim.x) {
    if (own[i] > 0) atomicAdd(counts + i, own[i]);
  }
}

template <class Key>
__global__ void take_ranked_kernel(RankedRows<Key> ranked, std::size_t rows, bool candidates,
                                   bool ties, bool dated, std::uint32_t* taken,
                                   unsigned long long* count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t rounds = (rows + step - 1) / step;
  std::size_t row = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::size_t round = 0; round < rounds; ++round, row += step) {
    const bool goes = row < rows && ranked.taken(row, candidates, ties, dated);
    const unsigned others = __ballot_sync(0xFFFFFFFFu, goes);
    if (others == 0) continue;
    const unsigned lane = threadIdx.x % 32;
    unsigned long long at = 0;
    if (lane == 0) at = atomicAdd(count, static_cast<unsigned long long>(__popc(others)));
    at = __shfl_sync(0xFFFFFFFFu, at, 0);
    if (goes && taken) {
      taken[at + __popc(others & ((1u << lane) - 1))] = static_cast<std::uint32_t>(row);
    }
  }
}

void clear(const OpContext& context, const char* name, const TensorRef& numbers) {
  check_status(cudaMemsetAsync(numbers.data, 0, numbers.size_in_bytes(), native_stream(context)),
               name, __FILE__, __LINE__);
}

void count_ranks(const OpContext& context, const CountRanks& op) {
  clear(context, CountRanks::kName, op.counts);
  const std::size_t rows = op.row_keys.size();
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    launch(context, CountRanks::kName, dim3(grid_for(rows, kThreads)), dim3(kThreads), 0,
           &count_ranks_kernel<Key>, RankedRows<Key>(op), rows, static_cast<int>(op.word),
           static_cast<int>(op.shift),
           reinterpret_cast<unsigned long long*>(op.counts.ptr<std::int64_t>()));
  });
}

void take_ranked(const OpContext& context, const TakeRanked& op) {
  clear(context, TakeRanked::kName, op.count);
  const std::size_t rows = op.row_keys.size();
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    launch(context, TakeRanked::kName, dim3(grid_for(rows, kThreads)), dim3(kThreads), 0,
           &take_ranked_kernel<Key>, RankedRows<Key>(op), rows, op.candidates, op.ties, op.dated,
           op.rows.empty() ? nullptr : op.rows.ptr<std::uint32_t>(),
           reinterpret_cast<unsigned long long*>(op.count.ptr<std::int64_t>()));
  });
}

const OpRegistration<CountRanks> count_ranks_cuda{DeviceType::Cuda, &count_ranks};
const OpRegistration<TakeRanked> take_ranked_cuda{DeviceType::Cuda, &take_ranked};

}  // namespace
}  // namespace hugectr::cuda
