// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "core/cpp/ops/embedding_init.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/bucket_lanes.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Everything that decides the content of rows but their keys and slots.
struct InitialRows {
  const std::uint32_t* rows;  // those that are named; null: first, first + 1, ...
  std::size_t first, d;
  std::uint64_t seed, table;
  const float* bounds;  // one a slot, or null: `bound` for all
  float bound;

  __device__ std::size_t row(std::size_t i) const { return rows ? rows[i] : first + i; }
};

// A few threads share a row; each draws four columns at a time. Moves 4 d bytes a row.
template <bool kAligned, class Key>
__global__ void draw_rows_kernel(BucketLanes lanes, InitialRows init, const Key* __restrict__ keys,
                                 const std::uint32_t* __restrict__ slots,
                                 float* __restrict__ weights) {
  lanes.for_each([&](std::size_t i, unsigned lane) {
    const std::size_t row = init.row(i);
    const std::uint32_t slot = slots ? slots[row] : 0;
    const float bound = init.bounds ? init.bounds[slot] : init.bound;
    const std::uint64_t key = widen_key(keys[row]);
    for (std::size_t c = 4 * lane; c < init.d; c += 4 * lanes.lanes()) {
      const Philox4 bits =
          initial_bits(init.seed, init.table, slot, key, static_cast<std::uint32_t>(c / 4));
      Pack<float, 4> values;
#pragma unroll
      for (int k = 0; k < 4; ++k) values.v[k] = symmetric_float(bits.x[k], bound);
      float* to = weights + row * init.d + c;
      if constexpr (kAligned) {
        store_pack<4>(to, values);
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if (c + k < init.d) to[k] = values.v[k];
        }
      }
    }
  });
}

template <class T>
__global__ void fill_kernel(T* to, std::size_t n, T value) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    to[i] = value;
  }
}

// A few threads share a row.
template <class T>
__global__ void fill_rows_kernel(BucketLanes lanes, const std::uint32_t* __restrict__ rows, T* to,
                                 std::size_t d, T value) {
  lanes.for_each([&](std::size_t i, unsigned lane) {
    for (std::size_t c = lane; c < d; c += lanes.lanes()) to[rows[i] * d + c] = value;
  });
}

template <class T>
void fill_rows(const OpContext& context, const EmbeddingInit& op, T* to, std::size_t d, T value) {
  const auto count = static_cast<std::size_t>(op.count);
  const BucketLanes lanes(count, count * d);
  launch(context, EmbeddingInit::kName, lanes.grid(), lanes.block(), 0, &fill_rows_kernel<T>, lanes,
         op.rows.ptr<std::uint32_t>(), to, d, value);
}

template <class T>
void fill(const OpContext& context, T* to, std::size_t n, T value) {
  launch(context, EmbeddingInit::kName, dim3(grid_for(n, kThreads)), dim3(kThreads), 0,
         &fill_kernel<T>, to, n, value);
}

// Bounds of slots as float, as the CPU uses them; copied in the pieces that a stream takes from
// memory that goes away.
void copy_bounds(const OpContext& context, const std::vector<double>& bounds, float* to) {
  constexpr std::size_t kPiece = 64;
  const std::vector<float> host(bounds.begin(), bounds.end());
  for (std::size_t at = 0; at < host.size(); at += kPiece) {
    context.stream->copy_scalars(to + at, host.data() + at,
                                 std::min(kPiece, host.size() - at) * sizeof(float));
  }
}

template <class Key>
void draw_rows(const OpContext& context, const EmbeddingInit& op) {
  const std::size_t d = op.weights.shape[1];
  const bool one_bound = op.bounds.size() == 1;
  const Scratch bounds(context, one_bound ? 0 : op.bounds.size() * sizeof(float));
  if (!one_bound) copy_bounds(context, op.bounds, static_cast<float*>(bounds.data()));
  const InitialRows init{op.rows.empty() ? nullptr : op.rows.ptr<std::uint32_t>(),
                         static_cast<std::size_t>(op.first),
                         d,
                         op.seed,
                         op.table,
                         one_bound ? nullptr : static_cast<const float*>(bounds.data()),
                         static_cast<float>(op.bounds[0])};
  float* weights = op.weights.ptr<float>();
  const auto count = static_cast<std::size_t>(op.count);
  const BucketLanes lanes(count, count * ((d + 3) / 4));
  const auto kernel = d % 4 == 0 && packs_fit(weights, d, 4) ? &draw_rows_kernel<true, Key>
                                                             : &draw_rows_kernel<false, Key>;
  launch(context, EmbeddingInit::kName, lanes.grid(), lanes.block(), 0, kernel, lanes, init,
         op.row_keys.ptr<Key>(), op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>(),
         weights);
}

void embedding_init(const OpContext& context, const EmbeddingInit& op) {
  if (op.count == 0) return;
  const auto first = static_cast<std::size_t>(op.first);
  const auto count = static_cast<std::size_t>(op.count);
  if (!op.weights.empty()) {
    with_key_type(op.row_keys.dtype, [&]<class Key>(Key) { draw_rows<Key>(context, op); });
  }
  for (std::size_t s = 0; s < op.states.size(); ++s) {
    float* state = op.states[s].ptr<float>();
    const std::size_t d = op.states[s].shape[1];
    const auto value = static_cast<float>(op.initial_states[s]);
    if (!op.rows.empty()) {
      fill_rows(context, op, state, d, value);
    } else {
      fill(context, state + first * d, count * d, value);
    }
  }
  const auto birth = static_cast<std::uint32_t>(op.birth);
  if (!op.births.empty() && !op.rows.empty()) {
    fill_rows(context, op, op.births.ptr<std::uint32_t>(), 1, birth);
  } else if (!op.births.empty()) {
    fill(context, op.births.ptr<std::uint32_t>() + first, count, birth);
  }
  if (!op.last_step.empty() && !op.rows.empty()) {
    fill_rows<std::int64_t>(context, op, op.last_step.ptr<std::int64_t>(), 1, 1);
  } else if (!op.last_step.empty()) {
    fill<std::int64_t>(context, op.last_step.ptr<std::int64_t>() + first, count, 1);
  }
}

const OpRegistration<EmbeddingInit> embedding_init_cuda{DeviceType::Cuda, &embedding_init};

}  // namespace
}  // namespace hugectr::cuda
