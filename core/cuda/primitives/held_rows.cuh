// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "core/cuda/device/launch.cuh"
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
template <int kV, int kW, int kK>
struct RowCut {
  static constexpr int V = kV, W = kW, K = kK;
  static constexpr bool kHeld = K > 0;
  /// First column of pack i of a lane.
  __device__ static std::size_t column(int lane, int i) {
    return (static_cast<std::size_t>(i) * W + lane) * V;
  }
};

/// V numbers as they were loaded: whole registers where they fill 16 bytes.
template <class T, int V>
using RawLanePack = std::conditional_t<V == kPack<T>, PackWords<T>, Pack<T, 1>>;

/// Columns column .. column + V of a row of n; zeros behind its end.
template <int V, class T>
__device__ RawLanePack<T, V> load_lane_pack(const T* row, std::size_t column, std::size_t n) {
  if constexpr (V == kPack<T>) {
    if (column >= n) return {};
    return PackWords<T>::load_row(row + column, static_cast<unsigned>(column),
                                  static_cast<unsigned>(n));
  } else {
    static_assert(V == 1);
    return column < n ? RawLanePack<T, 1>{{row[column]}} : RawLanePack<T, 1>{};
  }
}

template <int V, class T>
__device__ void store_lane_pack(T* row, std::size_t column, std::size_t n,
                                const Pack<float, V>& wide) {
  if constexpr (V == kPack<T>) {
    PackWords<T>::narrowed(wide).store(row + column, static_cast<unsigned>(column),
                                       static_cast<unsigned>(n));
  } else {
    if (column < n) row[column] = narrow<T>(wide.v[0]);
  }
}

/// The packs that one lane has of a row. A row that is not there reads as zeros.
template <class T, class Cut>
class LaneOfRow {
 public:
  __device__ LaneOfRow(const T* row, bool there, int lane, std::size_t n)
      : row_(row), n_(there ? n : 0), lane_(lane) {
    if constexpr (Cut::kHeld) {
#pragma unroll
      for (int i = 0; i < Cut::K; ++i) held_[i] = load(i);
    }
  }
  /// Pack i, zeros behind the row's end.
  __device__ Pack<float, Cut::V> operator[](int i) const {
    if constexpr (Cut::kHeld) {
      return widened(held_[i]);
    } else {
      return widened(load(i));
    }
  }

 private:
  using Raw = RawLanePack<T, Cut::V>;
  __device__ Raw load(int i) const {
    return load_lane_pack<Cut::V>(row_, Cut::column(lane_, i), n_);
  }
  __device__ static Pack<float, Cut::V> widened(const Raw& raw) {
    if constexpr (Cut::V == kPack<T>) {
      return raw.widened();
    } else {
      return {{widen(raw.v[0])}};
    }
  }

  const T* row_;
  std::size_t n_;
  int lane_;
  Raw held_[Cut::kHeld ? Cut::K : 1];
};

/// f(i, first column) for every pack that one lane has of a row of n.
template <class Cut, class F>
__device__ void for_each_pack(int lane, std::size_t n, const F& f) {
  if constexpr (Cut::kHeld) {
#pragma unroll
    for (int i = 0; i < Cut::K; ++i) {
      if (Cut::column(lane, i) < n) f(i, Cut::column(lane, i));
    }
  } else {
    for (int i = 0; Cut::column(lane, i) < n; ++i) f(i, Cut::column(lane, i));
  }
}

/// Float32 numbers of the columns, read once for all rows where those are held.
template <class Cut>
class LaneColumns {
 public:
  __device__ LaneColumns(const float* values, int lane, std::size_t n) : values_(values), n_(n) {
    if constexpr (Cut::kHeld) {
#pragma unroll
      for (int i = 0; i < Cut::K; ++i) held_[i] = load(Cut::column(lane, i));
    }
  }
  __device__ Pack<float, Cut::V> operator()(int i, std::size_t column) const {
    if constexpr (Cut::kHeld) {
      return held_[i];
    } else {
      return load(column);
    }
  }

 private:
  __device__ Pack<float, Cut::V> load(std::size_t column) const {
    Pack<float, Cut::V> pack{};
#pragma unroll
    for (int k = 0; k < Cut::V; ++k) {
      if (column + k < n_) pack.v[k] = values_[column + k];
    }
    return pack;
  }

  const float* values_;
  std::size_t n_;
  Pack<float, Cut::V> held_[Cut::kHeld ? Cut::K : 1];
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
    if (packs <= 8) return f(type, RowCut<V, 8, 1>{});
    if (packs <= 16) return f(type, RowCut<V, 8, 2>{});
    if (packs <= 32) return f(type, RowCut<V, 32, 1>{});
    if (packs <= 128) return f(type, RowCut<V, 32, 4>{});
    if (V == 4 && packs <= 256) return f(type, RowCut<V, 32, V == 4 ? 8 : 0>{});
    f(type, RowCut<V, 32, 0>{});
  });
}

template <class Cut, class Body>
__global__ void __launch_bounds__(kHeldThreads) held_rows_kernel(std::size_t rows, Body body) {
  constexpr std::size_t kGroups = kHeldThreads / Cut::W;
  const int lane = static_cast<int>(threadIdx.x) % Cut::W;
  const auto columns = body.columns(lane);
  // The bound is that of the block, so that whole warps reach the shuffles.
  for (std::size_t first = blockIdx.x * kGroups; first < rows; first += gridDim.x * kGroups) {
    const std::size_t row = first + threadIdx.x / Cut::W;
    body(row, row < rows, lane, columns);
  }
}

/// body(row, whether it is there, lane, body.columns(lane)) for every row, by whole groups of
/// lanes.
template <class Cut, class Body>
void for_each_held_row(const OpContext& context, const char* name, std::size_t rows,
                       const Body& body) {
  if (rows == 0) return;
  launch(context, name, dim3(grid_for(rows, kHeldThreads / Cut::W)), dim3(kHeldThreads), 0,
         &held_rows_kernel<Cut, Body>, rows, body);
}

}  // namespace hugectr::cuda
