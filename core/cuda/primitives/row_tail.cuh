// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

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

/// f(T{}, std::integral_constant<int, V>{}) with T the element type of x, and V kPack<T> where the
/// rows of all these tensors start as 16-byte accesses want it, else 1. Rows may end anywhere.
template <class F, class... Refs>
void with_packs(const F& f, const TensorRef& x, const Refs&... others) {
  with_real_type(x.dtype, [&]<class T>(T type) {
    if (rows_start_aligned<T>(x, others...)) {
      f(type, std::integral_constant<int, kPack<T>>{});
    } else {
      f(type, std::integral_constant<int, 1>{});
    }
  });
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

/// The two 16-bit numbers of a word.
template <class T>
__device__ Pack<float, 2> widen_word(unsigned word) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000u)};
  } else {
    return {widen(T{static_cast<std::uint16_t>(word)}),
            widen(T{static_cast<std::uint16_t>(word >> 16)})};
  }
}
template <class T>
__device__ unsigned narrow_word(float low, float high) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&both);
  } else {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&both);
  }
}

/// kPack<T> numbers in four registers. (The compiler keeps each 16-bit element of a Pack in a
/// register of its own, and widens them one by one.)
template <class T>
struct PackWords {
  unsigned word[4];

  __device__ static PackWords of(const uint4& all) { return {{all.x, all.y, all.z, all.w}}; }
  /// A whole pack.
  __device__ static PackWords load(const T* p) { return of(*reinterpret_cast<const uint4*>(p)); }
  /// The columns that lie in a row of n, zeros behind its end; `p` is where its column `column`
  /// lies.
  __device__ static PackWords load_row(const T* p, unsigned column, unsigned n) {
    if (column + kPack<T> <= n) return load(p);
    PackWords result{};
    if (column >= n) return result;
    const unsigned whole = (n - column) * sizeof(T) / 4;  // words
    const auto* words = reinterpret_cast<const unsigned*>(p);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if (i < whole) result.word[i] = words[i];
      if (sizeof(T) == 2 && i == whole && (n - column) % 2 == 1) {
        result.word[i] = reinterpret_cast<const std::uint16_t*>(p)[2 * i];
      }
    }
    return result;
  }
  __device__ static PackWords narrowed(const Pack<float, kPack<T>>& wide) {
    PackWords result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        result.word[i] = __float_as_uint(wide.v[i]);
      } else {
        result.word[i] = narrow_word<T>(wide.v[2 * i], wide.v[2 * i + 1]);
      }
    }
    return result;
  }
  __device__ Pack<float, kPack<T>> widened() const {
    Pack<float, kPack<T>> wide;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 4) {
        wide.v[i] = __uint_as_float(word[i]);
      } else {
        const Pack<float, 2> two = widen_word<T>(word[i]);
        wide.v[2 * i] = two.v[0];
        wide.v[2 * i + 1] = two.v[1];
      }
    }
    return wide;
  }
  /// Stores the columns that lie in a row of n; `p` is where its column `column` lies.
  __device__ void store(T* p, unsigned column, unsigned n) const {
    if (column + kPack<T> <= n) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
                   "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                   : "memory");
      return;
    }
    if (column >= n) return;
    const unsigned whole = (n - column) * sizeof(T) / 4;  // words
    auto* words = reinterpret_cast<unsigned*>(p);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if (i < whole) words[i] = word[i];
      if (sizeof(T) == 2 && i == whole && (n - column) % 2 == 1) {
        reinterpret_cast<std::uint16_t*>(p)[2 * i] = static_cast<std::uint16_t>(word[i]);
      }
    }
  }
};

/// V < kPack<T> numbers, like PackWords: all of them lie in a row of n, or none.
template <int V, class T>
struct FewElements {
  Pack<T, V> pack;

  __device__ static FewElements load_row(const T* p, unsigned column, unsigned n) {
    return column + V <= n ? FewElements{load_pack<V>(p)} : FewElements{};
  }
  __device__ static FewElements narrowed(const Pack<float, V>& wide) {
    FewElements result;
#pragma unroll
    for (int k = 0; k < V; ++k) result.pack.v[k] = narrow<T>(wide.v[k]);
    return result;
  }
  __device__ Pack<float, V> widened() const { return widen_pack(pack); }
  __device__ void store(T* p, unsigned column, unsigned n) const {
    if (column + V <= n) store_pack<V>(p, pack);
  }
};

/// V numbers just as they were loaded. Loads that should be under way together are.
template <int V, class T>
using RowWords = std::conditional_t<V == kPack<T>, PackWords<T>, FewElements<V, T>>;

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
