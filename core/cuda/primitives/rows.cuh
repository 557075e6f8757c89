// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/cpp/memory/tensor_ref.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/fast_divide.cuh"

/// Batch-major tensors with strided rows, as kernels see them, and element-wise loops over them.
namespace hugectr::cuda {

inline constexpr unsigned kThreads = 256;  ///< of a block of an element-wise loop

/// First element and row stride of a tensor.
template <class T>
struct Rows {
  T* data = nullptr;
  std::size_t stride = 0;
  __device__ T* at(std::size_t row, std::size_t column) const {
    return data + row * stride + column;
  }
};

/// The rows of a tensor; no data for an empty one. Throws InvalidArgument for another dtype.
template <class T>
Rows<T> rows_of(const TensorRef& ref) {
  if (ref.empty()) return {};
  return {ref.ptr<std::remove_const_t<T>>(), ref.row_stride};
}

/// V elements that are loaded and stored with 16-byte accesses (fewer bytes when V is small).
template <class T, int V>
struct alignas(V * sizeof(T) < 16 ? V * sizeof(T) : 16) Pack {
  T v[V];
};

template <int V, class T>
__device__ Pack<std::remove_const_t<T>, V> load_pack(T* p) {
  return *reinterpret_cast<const Pack<std::remove_const_t<T>, V>*>(p);
}

/// To global memory.
template <int V, class T>
__device__ void store_pack(T* p, const Pack<T, V>& pack) {
  if constexpr (sizeof(pack) == 16) {
    // The compiler breaks the store of a struct in pieces where it knows too little about p.
    uint4 words;
    memcpy(&words, &pack, sizeof words);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
                 "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
  } else {
    *reinterpret_cast<Pack<T, V>*>(p) = pack;
  }
}

/// True when rows `row_stride` elements apart may be read V elements at a time from `data` on.
template <class T>
bool packs_fit(const T* data, std::size_t row_stride, std::size_t v) {
  const std::size_t bytes = std::min<std::size_t>(16, v * sizeof(T));
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0 && row_stride % v == 0;
}

/// How an element-wise loop is cut: units of V neighbouring elements of a row, the last unit of a
/// row may be shorter. Contiguous tensors count as one long row.
struct ElementUnits {
  ElementUnits() = default;
  ElementUnits(std::size_t rows, std::size_t row_size, std::size_t v)
      : count(rows * ((row_size + v - 1) / v)),
        row_size(row_size),
        per_row((row_size + v - 1) / v) {}
  std::size_t count = 0, row_size = 0;
  FastDivide per_row;
};

/// A tensor and the type of its elements, for map_rows().
template <class T>
struct Operand {
  const TensorRef& ref;
};

template <int V, class F, class Out, class... In>
__device__ void map_pack(const F& f, Out* out, const Pack<In, V>&... in) {
  Pack<Out, V> result;
#pragma unroll
  for (int i = 0; i < V; ++i) result.v[i] = f(in.v[i]...);
  store_pack<V>(out, result);
}

// No __restrict: `out` may be one of `in`, element for element.
template <int V, class F, class Out, class... In>
__global__ void map_rows_kernel(ElementUnits units, F f, Rows<Out> out, Rows<const In>... in) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    column *= V;
    if (column + V <= units.row_size) {
      map_pack<V>(f, out.at(row, column), load_pack<V>(in.at(row, column))...);
    } else {
      for (; column < units.row_size; ++column) {
        *out.at(row, column) = f(*in.at(row, column)...);
      }
    }
  }
}

template <int V, class F, class Out, class... In>
void launch_map_rows(const OpContext& context, const char* name, const F& f, bool flat,
                     const Operand<Out>& out, const Operand<In>&... in) {
  const std::size_t rows = flat ? 1 : out.ref.rows();
  const ElementUnits units(rows, flat ? out.ref.size() : out.ref.row_size(), V);
  void (*kernel)(ElementUnits, F, Rows<Out>, Rows<const In>...) =
      &map_rows_kernel<V, F, Out, In...>;
  launch(context, name, dim3(grid_for(units.count, kThreads)), dim3(kThreads), 0, kernel, units, f,
         rows_of<Out>(out.ref), rows_of<const In>(in.ref)...);
}

/// out = f(in...) element by element; all of one shape, rows may be strided. `out` may be one of
/// `in`. Moves every element once, 16 bytes at a time where strides and alignment allow.
template <class F, class Out, class... In>
void map_rows(const OpContext& context, const char* name, const F& f, const Operand<Out>& out,
              const Operand<In>&... in) {
  if (out.ref.size() == 0) return;
  constexpr std::size_t kV = 16 / std::min({sizeof(Out), sizeof(In)...});
  const bool flat = out.ref.contiguous() && (in.ref.contiguous() && ...);
  const auto fits = [flat](const auto* data, const TensorRef& ref) {
    return packs_fit(data, flat ? 0 : ref.row_stride, kV);
  };
  if (fits(out.ref.template ptr<Out>(), out.ref) &&
      (fits(in.ref.template ptr<In>(), in.ref) && ...)) {
    launch_map_rows<kV>(context, name, f, flat, out, in...);
  } else {
    launch_map_rows<1>(context, name, f, flat, out, in...);
  }
}

}  // namespace hugectr::cuda
