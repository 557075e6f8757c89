// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/ahead.cuh"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/row_tail.cuh"

/// Rows that are read once and held in registers while they are reduced: layer_norm and softmax. A
/// group of lanes of one warp has a row, each lane packs of neighbouring columns; a row that is too
/// long for a warp is taken from memory (the cache, mostly) in every pass by all lanes of it.
namespace hugectr::cuda {

/// The maximum over each aligned group of Width lanes, in every lane of it.
template <int Width>
__device__ float group_max(float value) {
#pragma unroll
  for (int step = Width / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  }
  return value;
}

/// How a row of n columns is cut: W lanes hold K packs of V columns each. K = 0: held by nobody.
/// kWhole: n is a multiple of V, so that no pack is shorter.
template <int kV, int kW, int kK, bool kOfWholePacks = true>
struct RowCut {
  static constexpr int V = kV, W = kW, K = kK;
  static constexpr bool kHeld = K > 0, kWhole = kOfWholePacks;
  /// Rows of a group that are under way while one is worked on.
  static constexpr int kAhead = K == 1 ? 2 : 1;
  /// First column of pack i of a lane.
  __device__ static unsigned column(int lane, int i) {
    return static_cast<unsigned>((i * W + lane) * V);
  }
  /// Whether column + k lies in a row of n, when `column` does and a pack begins there.
  __device__ static bool in_row(unsigned column, int k, unsigned n) {
    return kWhole || column + static_cast<unsigned>(k) < n;
  }
};

/// The packs that one lane has of a row, as they were loaded. A row that is not there reads as
/// zeros.
template <class T, class Cut>
class LaneOfRow {
 public:
  LaneOfRow() = default;
  __device__ LaneOfRow(const T* row, bool there, int lane, unsigned n)
      : row_(row), n_(there ? n : 0), lane_(lane) {
    if constexpr (Cut::kHeld) {
#pragma unroll
      for (int i = 0; i < Cut::K; ++i) held_[i] = load(i);
    }
  }
  /// Of packs that were staged: pack i is the next that slot(first + i) holds.
  template <class Slot>
  __device__ static LaneOfRow staged(const Slot& slot, int first) {
    LaneOfRow row;
#pragma unroll
    for (int i = 0; i < Cut::K; ++i) row.held_[i] = Words::of(slot(first + i));
    return row;
  }
  /// Pack i, zeros behind the row's end.
  __device__ Pack<float, Cut::V> operator[](int i) const {
    if constexpr (Cut::kHeld) {
      return held_[i].widened();
    } else {
      return load(i).widened();
    }
  }

 private:
  using Words = RowWords<Cut::V, T>;
  __device__ Words load(int i) const {
    const unsigned column = Cut::column(lane_, i);
    if (column >= n_) return {};
    // Whole packs need no other code for their last one.
    return Words::load_row(row_ + column, column, Cut::kWhole ? column + Cut::V : n_);
  }

  const T* row_;
  unsigned n_;
  int lane_;
  Words held_[Cut::kHeld ? Cut::K : 1];
};

/// Stores the pack at `column`, which lies in a row of n.
template <class Cut, class T>
__device__ void store_lane_pack(T* row, unsigned column, unsigned n,
                                const Pack<float, Cut::V>& wide) {
  RowWords<Cut::V, T>::narrowed(wide).store(row + column, column,
                                            Cut::kWhole ? column + Cut::V : n);
}

/// f(i, first column) for every pack that one lane has of a row of n.
template <class Cut, class F>
__device__ void for_each_pack(int lane, unsigned n, const F& f) {
  if constexpr (Cut::kHeld) {
#pragma unroll
    for (int i = 0; i < Cut::K; ++i) {
      if (Cut::column(lane, i) < n) f(i, Cut::column(lane, i));
    }
  } else {
    for (int i = 0; Cut::column(lane, i) < n; ++i) f(i, Cut::column(lane, i));
  }
}

/// compute(i, first column) of every pack of a lane: kept where rows are held, else computed again
/// whenever it is asked for.
template <class Cut, class Compute>
class LaneValues {
 public:
  __device__ LaneValues(int lane, unsigned n, const Compute& compute) : compute_(compute) {
    if constexpr (Cut::kHeld) {
      for_each_pack<Cut>(lane, n, [&](int i, unsigned column) { kept_[i] = compute(i, column); });
    }
  }
  __device__ Pack<float, Cut::V> operator()(int i, unsigned column) const {
    if constexpr (Cut::kHeld) {
      return kept_[i];
    } else {
      return compute_(i, column);
    }
  }

 private:
  Compute compute_;
  Pack<float, Cut::V> kept_[Cut::kHeld ? Cut::K : 1];
};

template <class Cut, class Compute>
__device__ LaneValues<Cut, Compute> lane_values(int lane, unsigned n, const Compute& compute) {
  return {lane, n, compute};
}

/// Float32 numbers of the columns in shared memory: the lanes that read pack i of theirs together
/// read neighbouring 16 bytes.
template <class Cut>
struct ColumnTable {
  static constexpr int kPart = Cut::V < 4 ? Cut::V : 4;
  static constexpr unsigned kPacks = Cut::kHeld ? Cut::W * Cut::K : 1;
  alignas(16) float part[Cut::V / kPart][kPacks * kPart];

  /// By all threads of the block; who reads waits for them. Zeros behind the last column.
  __device__ void fill(const float* values, unsigned n) {
    for (unsigned j = threadIdx.x; j < kPacks * Cut::V; j += blockDim.x) {
      part[j % Cut::V / kPart][j / Cut::V * kPart + j % kPart] = j < n ? values[j] : 0.0f;
    }
  }
  __device__ Pack<float, Cut::V> at(unsigned pack) const {
    Pack<float, Cut::V> result;
#pragma unroll
    for (int p = 0; p < Cut::V / kPart; ++p) {
      const auto some = load_pack<kPart>(&part[p][pack * kPart]);
#pragma unroll
      for (int k = 0; k < kPart; ++k) result.v[p * kPart + k] = some.v[k];
    }
    return result;
  }
};

/// Float32 numbers of one lane's columns: in a register each, in shared memory where a lane has
/// many, in memory where rows are not held.
template <class Cut>
class LaneColumns {
 public:
  __device__ LaneColumns(const float* values, const ColumnTable<Cut>& table, int lane, unsigned n)
      : values_(values), table_(table), lane_(lane), n_(n) {
    if constexpr (Cut::K == 1) held_ = table.at(static_cast<unsigned>(lane));
  }
  __device__ Pack<float, Cut::V> operator()(int i, unsigned column) const {
    if constexpr (Cut::K == 1) {
      return held_;
    } else if constexpr (Cut::kHeld) {
      return table_.at(static_cast<unsigned>(i * Cut::W + lane_));
    } else {
      Pack<float, Cut::V> pack{};
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        if (Cut::in_row(column, k, n_)) pack.v[k] = values_[column + k];
      }
      return pack;
    }
  }

 private:
  const float* values_;
  const ColumnTable<Cut>& table_;
  int lane_;
  unsigned n_;
  Pack<float, Cut::V> held_;
};

inline constexpr unsigned kHeldThreads = 256;

/// Calls f(T{}, Cut{}) with the cut for rows of x's length; 16-byte accesses where the rows of all
/// these tensors begin as those want it.
template <class F, class... Refs>
void with_row_cut(const F& f, const TensorRef& x, const Refs&... others) {
  const std::size_t n = x.row_size();
  with_real_type(x.dtype, [&]<class T>(T type) {
    constexpr int V = kPack<T>;
    if (!rows_start_aligned<T>(x, others...)) {
      if (n <= 16) return f(type, RowCut<1, 8, 2>{});
      return n <= 256 ? f(type, RowCut<1, 32, 8>{}) : f(type, RowCut<1, 32, 0>{});
    }
    const std::size_t packs = packs_of(n, V);
    if (n % V != 0) {
      if (packs <= 16) return f(type, RowCut<V, 8, 2, false>{});
      return packs <= 128 ? f(type, RowCut<V, 32, 4, false>{}) : f(type, RowCut<V, 32, 0, false>{});
    }
    if (packs <= 8) return f(type, RowCut<V, 8, 1>{});
    if (packs <= 16) return f(type, RowCut<V, 8, 2>{});
    if (packs <= 32) return f(type, RowCut<V, 32, 1>{});
    if (packs <= 64) return f(type, RowCut<V, 32, 2>{});
    if (packs <= 128) return f(type, RowCut<V, 32, 4>{});
    if (V == 4 && packs <= 256) return f(type, RowCut<V, 32, V == 4 ? 8 : 0>{});
    f(type, RowCut<V, 32, 0>{});
  });
}

/// What one lane has of a row of each of a body's kTensors tensors.
template <class Body, class Cut>
struct LaneOfRows {
  LaneOfRow<typename Body::Element, Cut> of[Body::kTensors];
};

/// How rows come to the lanes that hold them: by way of shared memory where they are whole packs
/// and four (two of long ones) are 64 KB a block at most, else in registers.
template <class Element, class Cut, int kTensors>
struct HeldStages {
  static constexpr int kPacks = kTensors * std::max(1, Cut::K);
  static constexpr bool kStaged =
      Cut::kHeld && Cut::kWhole && Cut::V == kPack<Element> && kPacks <= 8;
  static constexpr int kStages = kPacks <= 4 ? 4 : 2;
  using Ahead = StagedAhead<kStages, kPacks>;
};

/// Rows of a block are kGroups neighbouring ones of every gridDim.x * kGroups.
template <class Cut, class Body>
__global__ void __launch_bounds__(kHeldThreads, Body::kBlocks)
    held_rows_kernel(std::size_t rows, Body body) {
  using Element = typename Body::Element;
  using Loaded = LaneOfRows<Body, Cut>;
  using Stages = HeldStages<typename Body::Element, Cut, Body::kTensors>;
  const unsigned groups = blockDim.x / Cut::W;
  const int lane = static_cast<int>(threadIdx.x) % Cut::W;
  const std::size_t begin = static_cast<std::size_t>(blockIdx.x) * groups;
  const std::size_t mine = begin + threadIdx.x / Cut::W;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * groups;
  // The count is that of the block, so that whole warps reach the shuffles.
  const auto count = static_cast<unsigned>(begin < rows ? (rows - begin + step - 1) / step : 0);
  const auto run = [&](auto& state, const Loaded& loaded, unsigned item) {
    const std::size_t row = mine + item * step;
    body(loaded, row, row < rows, lane, state);
  };
  if constexpr (Body::kThroughShared && Stages::kStaged) {
    extern __shared__ uint4 slots[];
    const auto copy = [&](unsigned item, const auto& slot) {
      const std::size_t row = mine + item * step;
#pragma unroll
      for (int tensor = 0; tensor < Body::kTensors; ++tensor) {
        const Element* const from = body.from(tensor, row < rows ? row : 0);
#pragma unroll
        for (int i = 0; i < Cut::K; ++i) {
          const unsigned column = Cut::column(lane, i);
          const bool there = row < rows && column < body.n;
          copy_16_async(slot(tensor * Cut::K + i), there ? from + column : from, there ? 16 : 0);
        }
      }
    };
    typename Stages::Ahead ahead(slots, threadIdx.x, blockDim.x, copy);
    auto state = body.start(lane);
    ahead.run(
        count, copy,
        [&](const auto& slot) {
          Loaded loaded;
#pragma unroll
          for (int tensor = 0; tensor < Body::kTensors; ++tensor) {
            loaded.of[tensor] = LaneOfRow<Element, Cut>::staged(slot, tensor * Cut::K);
          }
          return loaded;
        },
        [&](const Loaded& loaded, unsigned item) { run(state, loaded, item); });
    if constexpr (requires { body.finish(state, lane); }) body.finish(state, lane);
  } else {
    auto ahead = ahead_of<Cut::kAhead>([&](unsigned item) {
      const std::size_t row = mine + item * step;
      Loaded loaded;
#pragma unroll
      for (int tensor = 0; tensor < Body::kTensors; ++tensor) {
        loaded.of[tensor] = {body.from(tensor, row < rows ? row : 0), row < rows, lane, body.n};
      }
      return loaded;
    });
    auto state = body.start(lane);
    ahead.run(count, [&](const Loaded& loaded, unsigned item) { run(state, loaded, item); });
    if constexpr (requires { body.finish(state, lane); }) body.finish(state, lane);
  }
}

/// Runs every row through whole groups of lanes and returns the number of blocks, at most `most`.
/// A body has
///   Element, kTensors, n    type and number of the tensors that it reads, and their row's length
///   from(tensor, row)       where a row of one of them begins
///   kThroughShared          whether rows may come by way of shared memory (measured: it pays where
///                           the work on a row takes many registers)
///   kBlocks                 blocks of a multiprocessor that registers must suffice for
///   start(lane) -> what a thread keeps
///   body(LaneOfRows, row, there, lane, kept); and where it has one, finish(kept, lane)
template <class Cut, class Body>
unsigned for_each_held_row(const OpContext& context, const char* name, std::size_t rows,
                           const Body& body, unsigned threads = kHeldThreads,
                           std::size_t most = ~std::size_t{0}) {
  if (rows == 0) return 0;
  using Stages = HeldStages<typename Body::Element, Cut, Body::kTensors>;
  const std::size_t shared =
      Body::kThroughShared && Stages::kStaged ? Stages::Ahead::bytes(threads) : 0;
  static const unsigned per_processor =
      resident_blocks(&held_rows_kernel<Cut, Body>, static_cast<int>(threads), shared);
  const std::size_t groups = threads / Cut::W, needed = (rows + groups - 1) / groups;
  const auto blocks = static_cast<unsigned>(
      std::min({needed, most, std::size_t{per_processor} * processor_count()}));
  launch(context, name, dim3(blocks), dim3(threads), shared, &held_rows_kernel<Cut, Body>, rows,
         body);
  return blocks;
}

}  // namespace hugectr::cuda
