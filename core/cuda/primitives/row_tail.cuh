// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cuda/primitives/real.cuh"

/// Rows whose stride allows 16-byte accesses while their length does not: the last pack of a row is
/// shorter. What lies behind a row may belong to another tensor; it is neither used nor written.
namespace hugectr::cuda {

/// Elements of a 16-byte access.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

/// True when rows of T start where 16-byte accesses may; tensors without memory do not matter.
template <class T, class... Refs>
bool rows_start_aligned(const Refs&... refs) {
  return (... && (refs.empty() || packs_fit(static_cast<const T*>(refs.data),
                                            refs.rows() > 1 ? refs.row_stride : 0, kPack<T>)));
}

/// Calls f(std::integral_constant<int, V>{}) with V, the widest of kPack<T>, 2 and 1 elements that
/// divides `run` and that rows of T in these tensors may be read by.
template <class T, class F, class... Refs>
void with_width(std::size_t run, const F& f, const Refs&... refs) {
  const auto fits = [&](std::size_t v) {
    return run % v == 0 &&
           (... && (refs.empty() || packs_fit(static_cast<const T*>(refs.data),
                                              refs.rows() > 1 ? refs.row_stride : 0, v)));
  };
  if (fits(kPack<T>)) return f(std::integral_constant<int, kPack<T>>{});
  if (fits(2)) return f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, 1>{});
}

/// Number of packs of a row.
inline std::size_t packs_of(std::size_t columns, std::size_t v) { return (columns + v - 1) / v; }

/// Columns column .. column + V of a row of n; zeros behind its end.
template <int V, class T>
__device__ Pack<std::remove_const_t<T>, V> load_row_pack(T* row, std::size_t column,
                                                         std::size_t n) {
  if (column + V <= n) return load_pack<V>(row + column);
  Pack<std::remove_const_t<T>, V> pack{};
#pragma unroll
  for (int i = 0; i < V; ++i) {
    if (column + i < n) pack.v[i] = row[column + i];
  }
  return pack;
}

template <int V, class T>
__device__ Pack<float, V> widen_pack(const Pack<T, V>& raw) {
  Pack<float, V> wide;
#pragma unroll
  for (int i = 0; i < V; ++i) wide.v[i] = widen(raw.v[i]);
  return wide;
}

template <int V, class T>
__device__ Pack<float, V> load_row_widened(T* row, std::size_t column, std::size_t n) {
  return widen_pack(load_row_pack<V>(row, column, n));
}

/// Stores the columns that lie in the row.
template <int V, class T>
__device__ void store_row_pack(T* row, std::size_t column, std::size_t n, const Pack<T, V>& pack) {
  if (column + V <= n) return store_pack<V>(row + column, pack);
#pragma unroll
  for (int i = 0; i < V; ++i) {
    if (column + i < n) row[column + i] = pack.v[i];
  }
}

template <int V, class T>
__device__ void store_row_narrowed(T* row, std::size_t column, std::size_t n,
                                   const Pack<float, V>& wide) {
  Pack<T, V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) pack.v[i] = narrow<T>(wide.v[i]);
  store_row_pack<V>(row, column, n, pack);
}

}  // namespace hugectr::cuda
