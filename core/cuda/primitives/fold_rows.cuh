// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/cuda/memory/scratch.hpp"
#include "core/cuda/primitives/rows.cuh"

/// Element-wise combination of any number of tensors.
namespace hugectr::cuda {

inline constexpr std::size_t kFoldInputs = 64;  ///< of one launch: they travel in its parameters

struct FoldInputs {
  Rows<const float> rows[kFoldInputs];
  int count = 0;
};

// Every thread reads its elements of all inputs before it writes them: out may be an input.
template <int V, class F>
__global__ void fold_rows_kernel(ElementUnits units, F f, Rows<float> out,
                                 const __grid_constant__ FoldInputs in) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    column *= V;
    if (column + V <= units.row_size) {
      Pack<float, V> total = load_pack<V>(in.rows[0].at(row, column));
#pragma unroll 4
      for (int i = 1; i < in.count; ++i) {
        const Pack<float, V> x = load_pack<V>(in.rows[i].at(row, column));
#pragma unroll
        for (int k = 0; k < V; ++k) total.v[k] = f(total.v[k], x.v[k]);
      }
      store_pack<V>(out.at(row, column), total);
    } else {
      for (; column < units.row_size; ++column) {
        float total = *in.rows[0].at(row, column);
        for (int i = 1; i < in.count; ++i) total = f(total, *in.rows[i].at(row, column));
        *out.at(row, column) = total;
      }
    }
  }
}

template <class F>
void launch_fold(const OpContext& context, const char* name, const F& f, const TensorRef& out,
                 const std::vector<TensorRef>& in) {
  bool flat = out.contiguous();
  for (const TensorRef& x : in) flat = flat && x.contiguous();
  constexpr std::size_t kV = 4;
  bool packs = packs_fit(out.ptr<float>(), flat ? 0 : out.row_stride, kV);
  FoldInputs inputs;
  for (const TensorRef& x : in) {
    packs = packs && packs_fit(x.ptr<float>(), flat ? 0 : x.row_stride, kV);
    inputs.rows[inputs.count++] = rows_of<const float>(x);
  }
  const ElementUnits units(flat ? 1 : out.rows(), flat ? out.size() : out.row_size(),
                           packs ? kV : 1);
  launch(context, name, dim3(grid_for(units.count, kThreads)), dim3(kThreads), 0,
         packs ? &fold_rows_kernel<kV, F> : &fold_rows_kernel<1, F>, units, f, rows_of<float>(out),
         inputs);
}

/// out = f(.. f(f(in[0], in[1]), in[2]) .., in[last]), all float32 of one shape, rows may be
/// strided; out may be one of in. More inputs than a launch takes are carried on in scratch,
/// because out may be an input that is still to come.
template <class F>
void fold_rows(const OpContext& context, const char* name, const F& f, const TensorRef& out,
               const std::vector<TensorRef>& in) {
  if (out.size() == 0) return;
  std::optional<Scratch> carried;
  TensorRef total;
  std::size_t next = 0;
  std::vector<TensorRef> group;
  while (next < in.size()) {
    group.clear();
    if (next > 0) group.push_back(total);
    while (next < in.size() && group.size() < kFoldInputs) group.push_back(in[next++]);
    if (next < in.size() && !carried) {
      carried.emplace(context, out.size() * sizeof(float));
      total = make_ref(static_cast<float*>(carried->data()), out.shape, context.device);
    }
    launch_fold(context, name, f, next < in.size() ? total : out, group);
  }
}

}  // namespace hugectr::cuda
