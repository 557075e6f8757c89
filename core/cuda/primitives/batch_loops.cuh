// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>

#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/ahead.cuh"
#include "core/cuda/primitives/finish_pieces.cuh"
#include "core/cuda/primitives/row_tail.cuh"

/// Loops over batch-major tensors as batch_norm and dice want them. A thread stays on V columns, so
/// that what it knows of them is in registers; a block computes that once, since it takes square
/// roots and divisions in double. As many blocks as run at once share all rows.
///
/// A Body has
///   Row, kAhead                       what a thread reads of a row; rows of it under way
///   load(row, column) -> Row
/// or, where a thread reads a pack of 16 bytes of each of some tensors and nothing else, and shall
/// have them under way in shared memory instead of registers,
///   Element, kTensors, n              type and number of the tensors, length of their rows
///   from(tensor) -> Rows              one of them
///   staged(slot) -> Row               of the packs slot(tensor)
/// and in both cases
///   Value, kValues                    type and number of what it knows of a column, 0 or more
///   column(j, Value values[kValues])  computes them
namespace hugectr::cuda {

inline constexpr unsigned kBatchThreads = 256, kBatchWidth = 32;

/// What a thread knows of its columns: value k of column i.
template <int V, class Body>
struct ColumnValues {
  typename Body::Value of[std::max(1, Body::kValues)][V];
};

/// Called by all threads of the block. Zeros behind the last column.
template <int V, class Body>
__device__ ColumnValues<V, Body> column_values(const Body& body, std::size_t n) {
  using Value = typename Body::Value;
  ColumnValues<V, Body> result{};
  if constexpr (Body::kValues > 0) {
    __shared__ Value table[Body::kValues][kBatchWidth * V];
    const unsigned columns = blockDim.x * V;
    const std::size_t begin = static_cast<std::size_t>(blockIdx.x) * columns;
    for (unsigned j = threadIdx.y * blockDim.x + threadIdx.x; j < columns; j += kBatchThreads) {
      Value values[Body::kValues] = {};
      if (begin + j < n) body.column(begin + j, values);
#pragma unroll
      for (int k = 0; k < Body::kValues; ++k) table[k][j] = values[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < Body::kValues; ++k) {
#pragma unroll
      for (int i = 0; i < V; ++i) result.of[k][i] = table[k][threadIdx.x * V + i];
    }
  }
  return result;
}

/// How a body's rows come to the threads: four of each tensor under way in shared memory, or those
/// that it keeps in registers. (Numbers of 16 bits are bound by arithmetic: nothing is gained.)
template <int V, class Body>
struct BatchStages {
  static constexpr bool kStaged = false;
  static constexpr std::size_t kBytes = 0;
};
template <int V, class Body>
  requires(V == kPack<typename Body::Element> && sizeof(typename Body::Element) == 4)
struct BatchStages<V, Body> {
  static constexpr bool kStaged = true;
  using Ahead = StagedAhead<4, Body::kTensors>;
  static constexpr std::size_t kBytes = Ahead::bytes(kBatchThreads);
};

/// The rows of this thread: every step-th.
template <int V>
class BatchRows {
 public:
  __device__ BatchRows(std::size_t rows, std::size_t n)
      : column((static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V),
        rows_(rows),
        first_(static_cast<std::size_t>(blockIdx.y) * blockDim.y + threadIdx.y),
        step_(static_cast<std::size_t>(gridDim.y) * blockDim.y),
        count_(column < n && first_ < rows
                   ? static_cast<unsigned>((rows - first_ + step_ - 1) / step_)
                   : 0) {}
  /// use(loaded, row, number, columns) for all of them, with columns = start(), which is called
  /// while the first are under way.
  template <class Body, class Start, class Use>
  __device__ void run(const Body& body, const Start& start, const Use& use) const {
    if constexpr (BatchStages<V, Body>::kStaged) {
      run_staged(body, start, use);
    } else {
      auto ahead = ahead_of<Body::kAhead>([&](unsigned item) {
        return item < count_ ? body.load(row(item), column) : typename Body::Row{};
      });
      const auto columns = start();
      ahead.run(count_, [&](const auto& loaded, unsigned item) {
        if (item < count_) use(loaded, row(item), item, columns);
      });
    }
  }
  const std::size_t column;

 private:
  template <class Body, class Start, class Use>
  __device__ void run_staged(const Body& body, const Start& start, const Use& use) const {
    extern __shared__ uint4 slots[];
    const auto copy = [&](unsigned item, const auto& slot) {
      if (item >= count_) return;
#pragma unroll
      for (int tensor = 0; tensor < Body::kTensors; ++tensor) {
        copy_row_pack_async(reinterpret_cast<typename Body::Element*>(slot(tensor)),
                            body.from(tensor).at(row(item), 0), static_cast<unsigned>(column),
                            static_cast<unsigned>(body.n), row(item) + 1 == rows_);
      }
    };
    typename BatchStages<V, Body>::Ahead ahead(slots, threadIdx.y * blockDim.x + threadIdx.x,
                                               kBatchThreads, copy);
    const auto columns = start();
    ahead.run(
        count_, copy, [&](const auto& slot) { return body.staged(slot); },
        [&](const auto& loaded, unsigned item) { use(loaded, row(item), item, columns); });
  }

  __device__ std::size_t row(unsigned item) const { return first_ + item * step_; }
  const std::size_t rows_, first_, step_;
  const unsigned count_;
};

/// Body::store(row, column, Row, ColumnValues) for every row.
template <int V, class Body>
__global__ void __launch_bounds__(kBatchThreads, 2)
    map_batch_kernel(std::size_t rows, std::size_t n, Body body) {
  const BatchRows<V> mine(rows, n);
  mine.run(
      body, [&] { return column_values<V>(body, n); },
      [&](const auto& loaded, std::size_t row, unsigned, const auto& columns) {
        body.store(row, mine.column, loaded, columns);
      });
}

/// Adds up `kCount` sums of every lane over the lanes that are multiples of `width` apart, and
/// calls store(which, sum) for those that this lane is left with. Lanes halve what they have with
/// every step, so that each adds and sends as little as can be; of the last one all but one lane
/// drop out.
template <int kCount, class Store>
__device__ void share_sums(double* sums, unsigned lane, unsigned width, const Store& store,
                           unsigned step = 16, unsigned first = 0, unsigned apart = 1) {
  if (step < width) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) store(first + static_cast<unsigned>(i) * apart, sums[i]);
    return;
  }
  if constexpr (kCount > 1) {
    static_assert(kCount % 2 == 0);
    const bool odd = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const double even_one = sums[2 * i], odd_one = sums[2 * i + 1];
      const double other = __shfl_xor_sync(0xFFFFFFFFu, odd ? even_one : odd_one, step);
      sums[i] = (odd ? odd_one : even_one) + other;
    }
    share_sums<kCount / 2>(sums, lane, width, store, step / 2, odd ? first + apart : first,
                           2 * apart);
  } else {
    double sum = sums[0];
    bool mine = true;
    for (; step >= width; step /= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
      mine = mine && (lane & step) == 0;
    }
    if (mine) store(first, sum);
  }
}

/// Blocks of a multiprocessor that registers must suffice for: with fewer too little is under way.
template <int V, class Body>
inline constexpr int kSumBlocks = V == 1               ? 5
                                  : Body::kOfRows == 1 ? 3
                                                       : 2;

/// Sum s of column j goes to partial[blockIdx.y][s n + j], that of rows behind them.
template <int V, class Body>
__global__ void __launch_bounds__(kBatchThreads, (kSumBlocks<V, Body>))
    sum_batch_kernel(std::size_t rows, std::size_t n, Body body, double* partial) {
  constexpr int kOfColumns = Body::kSums * V, kSums = kOfColumns + Body::kOfRows;
  constexpr unsigned kWarps = kBatchThreads / 32;
  // Of a warp: its sums, width numbers of each, and that of the rows.
  __shared__ double of_warp[kWarps][kOfColumns * kBatchWidth];
  __shared__ double of_rows[kWarps];

  const BatchRows<V> mine(rows, n);
  double sums[kSums] = {};
  if constexpr (Body::kFew == 1) {
    mine.run(
        body, [&] { return column_values<V>(body, n); },
        [&](const auto& loaded, std::size_t, unsigned, const auto& columns) {
          body.add(loaded, columns, sums);
        });
  } else {
    float few[kSums] = {};
    const auto move = [&] {
#pragma unroll
      for (int s = 0; s < kSums; ++s) {
        sums[s] += static_cast<double>(few[s]);
        few[s] = 0.0f;
      }
    };
    mine.run(
        body, [&] { return column_values<V>(body, n); },
        [&](const auto& loaded, std::size_t, unsigned item, const auto& columns) {
          body.add(loaded, columns, few);
          if (item % Body::kFew == Body::kFew - 1) move();
        });
    move();
  }

  const unsigned width = blockDim.x, thread = threadIdx.y * width + threadIdx.x;
  const unsigned warp = thread / 32, lane = thread % 32;
  if constexpr (Body::kOfRows == 1) {
    share_sums<1>(sums + kOfColumns, lane, width, [&](unsigned, double sum) {
      if (threadIdx.x == 0) of_rows[warp] = sum;
    });
  }
  share_sums<kOfColumns>(sums, lane, width, [&](unsigned which, double sum) {
    of_warp[warp][which * width + threadIdx.x] = sum;
  });
  __syncthreads();
  double* const to = partial + blockIdx.y * (Body::kSums * n + Body::kOfRows);
  for (unsigned at = thread; at < kOfColumns * width; at += kBatchThreads) {
    const unsigned which = at >> (__ffs(static_cast<int>(width)) - 1), x = at & (width - 1);
    const std::size_t column = (static_cast<std::size_t>(blockIdx.x) * width + x) * V + which % V;
    double sum = of_warp[0][at];
#pragma unroll
    for (unsigned w = 1; w < kWarps; ++w) sum += of_warp[w][at];
    if (column < n) to[which / V * n + column] = sum;
  }
  if (Body::kOfRows == 1 && thread == 0 && blockIdx.x == 0) {
    double sum = of_rows[0];
    for (unsigned w = 1; w < kWarps; ++w) sum += of_rows[w];
    to[Body::kSums * n] = sum;
  }
}

/// Blocks and grid for rows of n, V columns a thread, of a kernel of which so many blocks run at
/// once on a multiprocessor.
struct BatchShape {
  dim3 block, grid;
  template <int V>
  static BatchShape of(std::size_t rows, std::size_t n, unsigned per_processor) {
    const std::size_t packs = packs_of(n, V);
    unsigned width = 1;
    while (width < kBatchWidth && width < packs) width *= 2;
    const unsigned height = kBatchThreads / width;
    const std::size_t across = (packs + width - 1) / width, down = (rows + height - 1) / height;
    const std::size_t at_once = std::size_t{per_processor} * processor_count();
    const std::size_t share = std::max<std::size_t>(1, at_once / std::max<std::size_t>(1, across));
    return {dim3(width, height),
            dim3(static_cast<unsigned>(across),
                 static_cast<unsigned>(std::min<std::size_t>({down, share, std::size_t{65535}})))};
  }
};

template <int V, class Body>
void map_batch(const OpContext& context, const char* name, std::size_t rows, std::size_t n,
               const Body& body) {
  constexpr std::size_t kShared = BatchStages<V, Body>::kBytes;
  static const unsigned per_processor =
      resident_blocks(&map_batch_kernel<V, Body>, kBatchThreads, kShared);
  const BatchShape shape = BatchShape::of<V>(rows, n, per_processor);
  launch(context, name, shape.grid, shape.block, kShared, &map_batch_kernel<V, Body>, rows, n,
         body);
}

/// finish(column, sum) for the sums down the columns, in double, that Body adds up:
///   kSums, kOfRows   sums of a column; whether (1) or not (0) there is one of the rows behind them
///   kFew             rows that are added in float32 before they go into double; 1: none
///   add(Row, ColumnValues, sums[kSums V + kOfRows])   sums of float where kFew > 1, else of double
/// The order depends on the shapes and on the GPU's size alone.
template <int V, class Body, class Finish>
void sum_batch(const OpContext& context, const char* name, std::size_t rows, std::size_t n,
               const Body& body, const Finish& finish) {
  constexpr std::size_t kShared = BatchStages<V, Body>::kBytes;
  static const unsigned per_processor =
      resident_blocks(&sum_batch_kernel<V, Body>, kBatchThreads, kShared);
  const BatchShape shape = BatchShape::of<V>(rows, n, per_processor);
  const std::size_t columns = Body::kSums * n + Body::kOfRows;
  const Scratch scratch(context, shape.grid.y * columns * sizeof(double));
  auto* const partial = static_cast<double*>(scratch.data());
  launch(context, name, shape.grid, shape.block, kShared, &sum_batch_kernel<V, Body>, rows, n, body,
         partial);
  finish_pieces(context, name, partial, shape.grid.y, columns, finish);
}

}  // namespace hugectr::cuda
