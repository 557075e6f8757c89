// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/ops/interaction.hpp"
#include "core/cuda/ops/interaction_rows.cuh"
#include "core/cuda/primitives/mma.cuh"
#include "core/cuda/primitives/real.cuh"
#include "core/cuda/primitives/stream_words.cuh"

// The forward pass on tensor cores: a warp a sample, X straight from global memory to the registers
// that the matrix instructions take.
//
// X X^T contracts over the columns, so any order of the columns will do as long as it is that of
// both factors. Lane (g, t) loads kV neighbouring columns of rows g, g + 8, ..: the lanes of a row
// read 64 bytes in a row, and registers 2h, 2h + 1 of all lanes hold 16 columns of 8 rows. That is
// half of the left factor of a product of 16 x 16 by 16 x 8, and all of the right one.
namespace hugectr::cuda {
namespace {

constexpr unsigned kWarps = 4;  // of a block

/// Registers of X: row 8 i + g, `block` of 4 kV columns.
template <int kGroups, int kBlocks, int kV>
struct RowRegisters {
  unsigned words[kGroups][kBlocks][kV / 2];
};

/// Where a lane finds its rows in a sample. Rows beyond the last stand for it: what comes of them
/// is never stored.
template <class T, int kGroups, int kV>
struct LanePlaces {
  __device__ explicit LanePlaces(const SampleRows<T>& rows)
      : is_mlp(threadIdx.x % 32 < 4), column(threadIdx.x % 4 * kV) {
#pragma unroll
    for (unsigned i = 0; i < kGroups; ++i) {
      const unsigned n = 8 * i + threadIdx.x % 32 / 4;
      const unsigned slot = (n < rows.count ? n : rows.count - 1) - 1;
      bytes[i] = is_mlp && i == 0 ? 0 : slot * rows.width * sizeof(T);
    }
  }
  unsigned bytes[kGroups];  ///< from the slots of the sample; 0 for mlp
  bool is_mlp;              ///< the row of the first group is mlp, not a slot
  unsigned column;          ///< in a block
};

/// `mlp` and `slots` point to the lane's column. kOne: a row is one unit, all of it there.
template <bool kOne, class T, int kGroups, int kBlocks, int kV>
__device__ void load_rows(RowRegisters<kGroups, kBlocks, kV>& x,
                          const LanePlaces<T, kGroups, kV>& places, const T* mlp, const T* slots,
                          unsigned columns_left) {
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    const auto* start =
        reinterpret_cast<const unsigned char*>(i == 0 && places.is_mlp ? mlp : slots);
    const T* row = reinterpret_cast<const T*>(start + places.bytes[i]);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if constexpr (kOne) {
        load_words(x.words[i][b], row + 4 * b * kV);
      } else {
        load_words_if(x.words[i][b], row + 4 * b * kV, 4 * b * kV + places.column < columns_left);
      }
    }
  }
}

/// Products of rows 16 m .. 16 m + 15 with rows 8 j .. 8 j + 7, j <= 2 m + 1, at m (m + 1) + j.
template <int kGroups>
constexpr int kTiles = kGroups / 2 * (kGroups / 2 + 1);

template <class T, int kGroups, int kBlocks, int kV>
__device__ void add_products(float (&dots)[kTiles<kGroups>][4],
                             const RowRegisters<kGroups, kBlocks, kV>& x) {
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int w = 0; w < kV / 2; w += 2) {
#pragma unroll
      for (int m = 0; m < kGroups / 2; ++m) {
        const auto &top = x.words[2 * m][b], &bottom = x.words[2 * m + 1][b];
#pragma unroll
        for (int j = 0; j <= 2 * m + 1; ++j) {
          multiply_add_16x8x16<T>(dots[m * (m + 1) + j], top[w], bottom[w], top[w + 1],
                                  bottom[w + 1], x.words[j][b][w], x.words[j][b][w + 1]);
        }
      }
    }
  }
}

// Puts the pairs of a sample where y wants them: 8 x 8 blocks left of the diagonal whole, on it the
// part below it. at[i]: the shared address of the lane's first pair of row 8 i + g.
template <class T, int kGroups>
__device__ void stage_pairs(const unsigned (&at)[kGroups],
                            const float (&dots)[kTiles<kGroups>][4]) {
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      const float* dot = dots[i / 2 * (i / 2 + 1) + j] + i % 2 * 2;
      const unsigned two = narrow_two<T>(dot[0], dot[1]);
      if (j < i) {
        store_shared_half(at[i] + 16 * j, two);
        store_shared_half(at[i] + 16 * j + 2, two >> 16);
      } else {
        store_shared_half_if(at[i] + 16 * j, two, g > 2 * t);
        store_shared_half_if(at[i] + 16 * j + 2, two >> 16, g > 2 * t + 1);
      }
    }
  }
}

// Puts the columns of row 0, mlp, where y wants them: lane t the columns from its own one on.
template <class T, int kGroups, int kBlocks, int kV>
__device__ void stage_mlp(T* staged, const RowRegisters<kGroups, kBlocks, kV>& x,
                          unsigned columns_left) {
  if (threadIdx.x % 32 >= 4) return;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    if (4 * b * kV + threadIdx.x % 4 * kV >= columns_left) break;
    auto* to = reinterpret_cast<Pack<unsigned, kV / 2>*>(staged + 4 * b * kV);
#pragma unroll
    for (int w = 0; w < kV / 2; ++w) to->v[w] = x.words[0][b][w];
  }
}

template <class Word>
__device__ void copy_out(unsigned char* to, const unsigned char* from, unsigned bytes) {
  const unsigned lane = threadIdx.x % 32;
  to += lane * sizeof(Word);
  from += lane * sizeof(Word);
#pragma unroll 1
  for (unsigned i = lane; i < bytes / sizeof(Word); i += 32) {
    *reinterpret_cast<Word*>(to) = *reinterpret_cast<const Word*>(from);
    to += 32 * sizeof(Word);
    from += 32 * sizeof(Word);
  }
}

// Writes a row of y with accesses of 16, 4 or 2 bytes.
__device__ inline void store_row(void* y, const void* row, unsigned bytes, unsigned access) {
  auto* const to = static_cast<unsigned char*>(y);
  const auto* const from = static_cast<const unsigned char*>(row);
  unsigned done = 0;
  if (access == 16) {
    copy_out<uint4>(to, from, bytes);
    done = bytes / 16 * 16;
  } else if (access == 4) {
    copy_out<unsigned>(to, from, bytes);
    done = bytes / 4 * 4;
  }
  if (done < bytes) copy_out<unsigned short>(to + done, from + done, bytes - done);
}

/// Keeps the compiler from taking registers that cost more warps than they save time.
constexpr int blocks_per_processor(int groups, int words_of_a_row) {
  if (groups > 4) return 2;
  const int words = groups * words_of_a_row;
  return words <= 32 ? 6 : words <= 48 ? 5 : words <= 64 ? 4 : words <= 128 ? 3 : 2;
}

// Moves 2 (T w + w + T (T - 1) / 2 + 1) bytes a sample. A unit is a sample, or the columns of one
// that fit the registers. The loads of kAhead units are under way: a kernel that waits for the unit
// it has just asked for reaches three quarters of this.
template <class T, int kGroups, int kBlocks, int kV, int kAhead, bool kOne>
__global__ void __launch_bounds__(32 * kWarps,
                                  blocks_per_processor(kGroups, kBlocks* kV / 2 * kAhead))
    forward_kernel(SampleRows<T> rows, Rows<T> y, unsigned columns, unsigned access,
                   unsigned pitch) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr unsigned kColumns = 4 * kV * kBlocks;
  T* const staged = reinterpret_cast<T*>(shared) + threadIdx.x / 32 * pitch;  // a row of y
  const LanePlaces<T, kGroups, kV> places(rows);
  unsigned pairs[kGroups];
#pragma unroll
  for (unsigned i = 0; i < kGroups; ++i) {
    const unsigned n = 8 * i + threadIdx.x % 32 / 4;
    // Rows there are not write behind the row of y.
    T* const to = n < rows.count ? staged + rows.width + n * (n - 1) / 2 : staged + columns + 1;
    pairs[i] = shared_address(to + 2 * (threadIdx.x % 4));
  }
  const unsigned step = gridDim.x * kWarps;
  unsigned sample = blockIdx.x * kWarps + threadIdx.x / 32;
  T* to = y.at(sample, 0);
  unsigned next = sample;  // whose columns from next_column on are to be loaded next
  const T* mlp = rows.mlp.at(sample, places.column);
  const T* slots = rows.emb.at(sample, places.column);
  unsigned next_column = 0, column = 0;
  RowRegisters<kGroups, kBlocks, kV> x[kAhead];
  const auto load_next = [&](RowRegisters<kGroups, kBlocks, kV>& into) {
    if (next >= rows.batch) return;
    load_rows<kOne>(into, places, mlp + next_column, slots + next_column, rows.width - next_column);
    if constexpr (!kOne) {
      next_column += kColumns;
      if (next_column < rows.width) return;
      next_column = 0;
    }
    next += step;
    mlp += step * rows.mlp.stride;
    slots += step * rows.emb.stride;
  };
  if (threadIdx.x % 32 == 0) staged[columns - 1] = T{};  // the pad
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load_next(x[i]);
  float dots[kTiles<kGroups>][4] = {};
  while (sample < rows.batch) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (sample >= rows.batch) break;
      add_products<T>(dots, x[i]);
      stage_mlp(staged + places.column + column, x[i], kOne ? kColumns : rows.width - column);
      load_next(x[i]);
      if constexpr (!kOne) {
        column += kColumns;
        if (column < rows.width) continue;
        column = 0;
      }
      stage_pairs<T, kGroups>(pairs, dots);
#pragma unroll
      for (auto& dot : dots) dot[0] = dot[1] = dot[2] = dot[3] = 0.0f;
      __syncwarp();
      store_row(to, staged, columns * sizeof(T), access);
      __syncwarp();
      sample += step;
      to += step * y.stride;
    }
  }
}

template <class T>
using ForwardKernel = void (*)(SampleRows<T>, Rows<T>, unsigned, unsigned, unsigned);

template <class T, int kGroups, int kBlocks, int kV, int kAhead>
ForwardKernel<T> kernel_with(unsigned width) {
  return width == 4 * kV * kBlocks ? &forward_kernel<T, kGroups, kBlocks, kV, kAhead, true>
                                   : &forward_kernel<T, kGroups, kBlocks, kV, kAhead, false>;
}

// Columns of a unit and units ahead as measured best on a GPU of 4.2 TB/s with 26 slots.
template <class T, int kGroups>
ForwardKernel<T> kernel_for(unsigned width) {
  if (width <= 16) return kernel_with<T, kGroups, 1, 4, 3>(width);
  if (width <= 32) return kernel_with<T, kGroups, 1, 8, 1>(width);
  if constexpr (kGroups <= 4) {  // with more rows the registers do not hold that much
    if (width > 64) return kernel_with<T, kGroups, 4, 8, 3>(width);
  }
  return kernel_with<T, kGroups, 2, 8, 2>(width);
}

template <class T>
ForwardKernel<T> kernel_for(unsigned rows, unsigned width) {
  if (rows <= 16) return kernel_for<T, 2>(width);
  if (rows <= 32) return kernel_for<T, 4>(width);
  if (rows <= 48) return kernel_for<T, 6>(width);
  return kernel_for<T, 8>(width);
}

template <class T>
bool run_forward(const OpContext& context, const InteractionFwd& op) {
  const auto rows = tensor_core_rows<T>(op.mlp, op.emb);
  if (rows.count == 0) return false;
  const auto columns = static_cast<unsigned>(op.y.shape[1]);
  const auto fits = [&](std::size_t v) {
    return packs_fit(op.y.ptr<T>(), op.y.rows() > 1 ? op.y.row_stride : 0, v);
  };
  const unsigned pitch =
      (columns + 1 + kMostRows + 7) / 8 * 8;  // and a place for what nobody wants
  launch(context, InteractionFwd::kName, dim3(grid_for(rows.batch, kWarps)), dim3(32 * kWarps),
         kWarps * pitch * sizeof(T), kernel_for<T>(rows.count, rows.width), rows, rows_of<T>(op.y),
         columns,
         fits(8)   ? 16u
         : fits(2) ? 4u
                   : 2u,
         pitch);
  return true;
}

}  // namespace

bool interaction_fwd_on_tensor_cores(const OpContext& context, const InteractionFwd& op) {
  switch (op.y.dtype) {
    case TensorScalarType::Float16:
      return run_forward<Float16>(context, op);
    case TensorScalarType::BFloat16:
      return run_forward<BFloat16>(context, op);
    default:
      return false;
  }
}

}  // namespace hugectr::cuda
