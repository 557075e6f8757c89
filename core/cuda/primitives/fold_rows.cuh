// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/real.cuh"

/// Element-wise combination of any number of tensors.
namespace hugectr::cuda {

inline constexpr std::size_t kFoldInputs = 64;  ///< of one launch: they travel in its parameters

template <class T>
struct FoldInputs {
  Rows<const T> rows[kFoldInputs];
  int count = 0;
  Rows<float> before;  ///< what earlier launches made of their inputs; no data in the first
  Rows<float> after;   ///< where this launch leaves its part; no data in the last
};

// The V elements from (row, column) on. Reads them in all inputs before it writes: out may be one.
template <int V, class T, class F>
__device__ void fold_unit(const F& f, std::size_t row, std::size_t column, const Rows<T>& out,
                          const FoldInputs<T>& in) {
  Pack<float, V> total = in.before.data != nullptr ? load_pack<V>(in.before.at(row, column))
                                                   : load_widened<V>(in.rows[0].at(row, column));
#pragma unroll 4
  for (int i = in.before.data != nullptr ? 0 : 1; i < in.count; ++i) {
    const Pack<float, V> x = load_widened<V>(in.rows[i].at(row, column));
#pragma unroll
    for (int k = 0; k < V; ++k) total.v[k] = f(total.v[k], x.v[k]);
  }
  if (in.after.data != nullptr) {
    store_pack<V>(in.after.at(row, column), total);
  } else {
    store_narrowed<V>(out.at(row, column), total);
  }
}

// A unit that reaches beyond its row is done element by element.
template <int V, class T, class F>
__global__ void fold_rows_kernel(ElementUnits units, F f, Rows<T> out,
                                 const __grid_constant__ FoldInputs<T> in) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    column *= V;
    if (column + V <= units.row_size) {
      fold_unit<V>(f, row, column, out, in);
    } else {
      for (; column < units.row_size; ++column) fold_unit<1>(f, row, column, out, in);
    }
  }
}

/// out = f(.. f(f(in[0], in[1]), in[2]) .., in[last]) in float32, rounded once; all of T and of one
/// shape, rows may be strided; out may be one of in. More inputs than a launch takes are carried on
/// in scratch, because out may be an input that is still to come.
template <class T, class F>
void fold_rows(const OpContext& context, const char* name, const F& f, const TensorRef& out,
               const std::vector<TensorRef>& in) {
  if (out.size() == 0) return;
  constexpr std::size_t kV = 16 / sizeof(T);
  bool flat = out.contiguous();
  for (const TensorRef& x : in) flat = flat && x.contiguous();
  const auto fits = [flat](const TensorRef& t) {
    return packs_fit(t.ptr<T>(), flat ? 0 : t.row_stride, kV);
  };
  bool packs = fits(out);
  for (const TensorRef& x : in) packs = packs && fits(x);
  const std::size_t row_size = flat ? out.size() : out.row_size();
  const ElementUnits units(flat ? 1 : out.rows(), row_size, packs ? kV : 1);
  // Rows of the scratch are whole units long, so that 16-byte accesses fit them too.
  const std::size_t carried_row = (row_size + kV - 1) / kV * kV;
  std::optional<Scratch> carried;
  for (std::size_t begin = 0; begin < in.size(); begin += kFoldInputs) {
    const std::size_t end = std::min(begin + kFoldInputs, in.size());
    FoldInputs<T> inputs;
    for (std::size_t i = begin; i < end; ++i) {
      inputs.rows[inputs.count++] = rows_of<const T>(in[i]);
    }
    if (end < in.size() && !carried) {
      carried.emplace(context, (flat ? 1 : out.rows()) * carried_row * sizeof(float));
    }
    const auto scratch = [&] {
      return Rows<float>{static_cast<float*>(carried->data()), carried_row};
    };
    if (begin > 0) inputs.before = scratch();
    if (end < in.size()) inputs.after = scratch();
    launch(context, name, dim3(grid_for(units.count, kThreads)), dim3(kThreads), 0,
           packs ? &fold_rows_kernel<kV, T, F> : &fold_rows_kernel<1, T, F>, units, f,
           rows_of<T>(out), inputs);
  }
}

}  // namespace hugectr::cuda
