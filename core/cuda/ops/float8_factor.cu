// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/ops/float8_factor.hpp"
#include "core/cuda/primitives/float_scratch.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

constexpr std::size_t kFp8Align = 16;
constexpr unsigned kTile = 128;          // rows and columns of a tile
constexpr unsigned kVec = 8;             // elements a thread reads at once
constexpr unsigned kQuads = kTile / 4;   // words of four numbers in a row of a tile
constexpr unsigned kPitch = kQuads + 1;  // of words in shared memory: rows begin in other banks
constexpr unsigned kPlane = kQuads * kPitch + 1;
constexpr std::size_t kHead = 256;  // bytes before the copies: the largest number and the scale

struct Head {
  unsigned most;            // float8_size() of the largest number
  alignas(16) float scale;  // cuBLASLt refuses one that does not begin at 16 bytes
};

template <int V, class T>
__global__ void __launch_bounds__(kThreads)
    largest_kernel(Rows<const T> x, ElementUnits units, Head* head) {
  __shared__ unsigned of_warps[kThreads / 32];
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned most = 0;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    const Pack<T, V> pack = load_pack<V>(x.at(row, column * V));
#pragma unroll
    for (int i = 0; i < V; ++i) most = max(most, float8_size(widen(pack.v[i])));
  }
  for (unsigned other = 16; other > 0; other /= 2) {
    most = max(most, __shfl_xor_sync(~0u, most, other));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const unsigned of_warp : of_warps) most = max(most, of_warp);
  atomicMax(&head->most, most);
}

// Two numbers in the low 16 bits, the first in the low byte. Those that are not finite are NaN.
template <Float8 kKind>
__device__ unsigned narrow_pair(float first, float second) {
  unsigned short pair = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if constexpr (kKind == Float8::E4M3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  }
#endif  // older GPUs are refused before
  return pair;
}

// `inverse` takes all finite numbers into the format's range.
__device__ inline float scaled(float x, float inverse) {
  return fabsf(x) <= 3.4028235e38f ? x * inverse : __int_as_float(0x7FC00000);
}

struct Target {
  std::uint8_t *as_it_is, *transposed;  // either may be absent
  std::size_t rows, columns;            // of as_it_is, multiples of 16
};

// The words of a tile in shared memory: its rows lie in four planes, by row % 4.
__device__ inline unsigned word_at(unsigned row, unsigned quad) {
  return row % 4 * kPlane + row / 4 * kPitch + quad;
}

// A block has a tile. A thread reads 8 neighbouring numbers of a row, writes them, and keeps them
// for the columns, of which a warp then writes 128 bytes at a time.
template <Float8 kKind, bool kPacks, class T>
__global__ void __launch_bounds__(kThreads)
    round_kernel(Rows<const T> x, std::size_t rows, std::size_t columns, unsigned across,
                 Head* head, Target to) {
  __shared__ unsigned words[4 * kPlane];
  const int k = float8_exponent(kKind, head->most);
  const float inverse = float8::power_of_two(-k);
  if (blockIdx.x == 0 && threadIdx.x == 0) head->scale = float8::power_of_two(k);
  const std::size_t first_row = std::size_t{blockIdx.x / across} * kTile;
  const std::size_t first_column = std::size_t{blockIdx.x % across} * kTile;
  constexpr unsigned kAcross = kTile / kVec, kDown = kThreads / kAcross;
  const unsigned group = threadIdx.x % kAcross;
  const std::size_t column = first_column + group * kVec;
#pragma unroll
  for (unsigned r = threadIdx.x / kAcross; r < kTile; r += kDown) {
    const std::size_t row = first_row + r;
    Pack<T, kVec> values{};
    if (row < rows) {
      if (kPacks && column + kVec <= columns) {
        values = load_pack<kVec>(x.at(row, column));
      } else {
#pragma unroll
        for (unsigned i = 0; i < kVec; ++i) {
          if (column + i < columns) values.v[i] = *x.at(row, column + i);
        }
      }
    }
    unsigned two[2];
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const T* const v = values.v + 4 * half;
      two[half] = narrow_pair<kKind>(scaled(widen(v[0]), inverse), scaled(widen(v[1]), inverse)) |
                  narrow_pair<kKind>(scaled(widen(v[2]), inverse), scaled(widen(v[3]), inverse))
                      << 16;
    }
    if (to.as_it_is != nullptr && row < to.rows && column < to.columns) {
      *reinterpret_cast<uint2*>(to.as_it_is + row * to.columns + column) = {two[0], two[1]};
    }
    words[word_at(r, 2 * group)] = two[0];
    words[word_at(r, 2 * group + 1)] = two[1];
  }
  if (to.transposed == nullptr) return;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  const std::size_t row = first_row + 4 * lane;
  for (unsigned quad = threadIdx.x / 32; quad < kQuads; quad += kThreads / 32) {
    const std::size_t at = first_column + 4 * quad;
    if (row >= to.rows || at >= to.columns) continue;
    unsigned of_rows[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) of_rows[i] = words[word_at(4 * lane + i, quad)];
    const unsigned low[2] = {__byte_perm(of_rows[0], of_rows[1], 0x5140),
                             __byte_perm(of_rows[2], of_rows[3], 0x5140)};
    const unsigned high[2] = {__byte_perm(of_rows[0], of_rows[1], 0x7362),
                              __byte_perm(of_rows[2], of_rows[3], 0x7362)};
    const unsigned of_columns[4] = {
        __byte_perm(low[0], low[1], 0x5410), __byte_perm(low[0], low[1], 0x7632),
        __byte_perm(high[0], high[1], 0x5410), __byte_perm(high[0], high[1], 0x7632)};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      *reinterpret_cast<unsigned*>(to.transposed + (at + i) * to.rows + row) = of_columns[i];
    }
  }
}

template <class T>
void find_largest(const OpContext& context, const Matrix& m, Head* head) {
  HCTR_TRY(cudaMemsetAsync(head, 0, sizeof *head, native_stream(context)));
  const auto run = [&]<int V>(std::integral_constant<int, V>) {
    const ElementUnits units(m.rows, m.columns, V);
    launch(context, "fp8 largest", dim3(grid_for(units.count, kThreads)), dim3(kThreads), 0,
           &largest_kernel<V, T>, Rows<const T>{m.ptr<T>(), m.stride}, units, head);
  };
  constexpr int kPack = 16 / sizeof(T);
  m.columns % kPack == 0 && packs_fit(m.ptr<T>(), m.stride, kPack)
      ? run(std::integral_constant<int, kPack>{})
      : run(std::integral_constant<int, 1>{});
}

template <Float8 kKind, class T>
void round_matrix(const OpContext& context, const Matrix& m, Head* head, const Target& to) {
  const auto across = static_cast<unsigned>((to.columns + kTile - 1) / kTile);
  const auto down = static_cast<unsigned>((to.rows + kTile - 1) / kTile);
  const auto run = [&](auto kernel) {
    launch(context, "fp8 round", dim3(across * down), dim3(kThreads), 0, kernel,
           Rows<const T>{m.ptr<T>(), m.stride}, m.rows, m.columns, across, head, to);
  };
  packs_fit(m.ptr<T>(), m.stride, kVec) ? run(&round_kernel<kKind, true, T>)
                                        : run(&round_kernel<kKind, false, T>);
}

}  // namespace

Float8Factor::Float8Factor(const OpContext& context, const Matrix& m, Float8 kind, Copies copies)
    : scratch_(
          context,
          kHead + (copies == Copies::Both ? 2 : 1) *
                      round_up(round_up(m.rows, kFp8Align) * round_up(m.columns, kFp8Align), 256)) {
  auto* const head = static_cast<Head*>(scratch_.data());
  auto* memory = static_cast<std::uint8_t*>(scratch_.data()) + kHead;
  const std::size_t rows = round_up(m.rows, kFp8Align), columns = round_up(m.columns, kFp8Align);
  Target to{nullptr, nullptr, rows, columns};
  if (copies != Copies::Transposed) {
    to.as_it_is = memory;
    memory += round_up(rows * columns, 256);
  }
  if (copies != Copies::AsItIs) to.transposed = memory;
  as_it_is_ = {to.as_it_is, rows, columns, kind, &head->scale};
  transposed_ = {to.transposed, columns, rows, kind, &head->scale};
  with_real_type(m.dtype, [&]<class T>(T) {
    find_largest<T>(context, m, head);
    kind == Float8::E4M3 ? round_matrix<Float8::E4M3, T>(context, m, head, to)
                         : round_matrix<Float8::E5M2, T>(context, m, head, to);
  });
}

}  // namespace hugectr::cuda
