// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "core/cpp/ops/elementwise_multiply.hpp"
#include "core/cuda/primitives/fold_rows.cuh"

namespace hugectr {
namespace {

using cuda::Pack;

struct Product {
  __device__ float operator()(float a, float b) const { return a * b; }
};

constexpr std::size_t kFew = 8;     // inputs that travel in the parameters of most launches
constexpr std::size_t kMost = 500;  // and of any

/// All inputs. dxs without data are not wanted.
template <class T, std::size_t Capacity>
struct Factors {
  cuda::Rows<const T> xs[Capacity];
  cuda::Rows<T> dxs[Capacity];
  int count = 0;
};
static_assert(sizeof(Factors<float, kMost>) <= 32000, "must fit the parameters of a launch");

template <int V>
__device__ void multiply(Pack<float, V>& product, const Pack<float, V>& x) {
#pragma unroll
  for (int k = 0; k < V; ++k) product.v[k] *= x.v[k];
}

// The gradients of inputs begin .. begin + kGroup - 1 at one place:
// dx_i = (dy * the inputs outside the group * those before i in it) * those behind i in it.
template <int V, int kGroup, class T, std::size_t Capacity>
__device__ void group_backward(const Factors<T, Capacity>& factors, int begin, std::size_t row,
                               std::size_t column, Pack<float, V> before) {
  Pack<float, V> x[kGroup], behind[kGroup];
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (begin + i < factors.count) {
      x[i] = cuda::load_widened<V>(factors.xs[begin + i].at(row, column));
    } else {
#pragma unroll
      for (int k = 0; k < V; ++k) x[i].v[k] = 1.0f;
    }
  }
  for (int i = 0; i < factors.count; ++i) {
    if (i == begin) i += kGroup;
    if (i < factors.count) {
      multiply<V>(before, cuda::load_widened<V>(factors.xs[i].at(row, column)));
    }
  }
#pragma unroll
  for (int k = 0; k < V; ++k) behind[kGroup - 1].v[k] = 1.0f;
#pragma unroll
  for (int i = kGroup - 1; i > 0; --i) {
    behind[i - 1] = behind[i];
    multiply<V>(behind[i - 1], x[i]);
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (begin + i < factors.count && factors.dxs[begin + i].data != nullptr) {
      multiply<V>(behind[i], before);
      cuda::store_narrowed<V>(factors.dxs[begin + i].at(row, column), behind[i]);
    }
    multiply<V>(before, x[i]);
  }
}

// kGroup: inputs whose gradients are made at once, in registers. Up to that many: moves every
// element of dy, the inputs and their gradients once. Beyond, every group reads all inputs again,
// which the same thread has just had in its cache.
template <int V, int kGroup, class T, std::size_t Capacity>
__global__ void multiply_backward(cuda::ElementUnits units, cuda::Rows<const T> dy,
                                  const __grid_constant__ Factors<T, Capacity> factors) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    column *= V;
    const Pack<float, V> gradient = cuda::load_widened<V>(dy.at(row, column));
    for (int begin = 0; begin < factors.count; begin += kGroup) {
      group_backward<V, kGroup>(factors, begin, row, column, gradient);
    }
  }
}

template <class T, std::size_t Capacity>
Factors<T, Capacity> factors_of(const ElementwiseMultiplyBwd& op) {
  Factors<T, Capacity> factors;
  std::size_t k = 0;
  for (std::size_t i = 0; i < op.xs.size(); ++i) {
    factors.xs[i] = cuda::rows_of<const T>(op.xs[i]);
    const bool wanted =
        k < op.dxs.size() && (op.wanted.empty() || static_cast<std::size_t>(op.wanted[k]) == i);
    if (wanted) factors.dxs[i] = cuda::rows_of<T>(op.dxs[k++]);
  }
  factors.count = static_cast<int>(op.xs.size());
  return factors;
}

template <int kGroup, class T, std::size_t Capacity>
void run_backward(const OpContext& ctx, const ElementwiseMultiplyBwd& op) {
  constexpr std::size_t kWidth = 16 / sizeof(T);
  std::vector<const TensorRef*> refs{&op.dy};
  for (const TensorRef& x : op.xs) refs.push_back(&x);
  for (const TensorRef& dx : op.dxs) refs.push_back(&dx);
  const bool flat =
      std::all_of(refs.begin(), refs.end(), [](const TensorRef* r) { return r->contiguous(); });
  const std::size_t row_size = flat ? op.dy.size() : op.dy.row_size();
  const bool packs =
      row_size % kWidth == 0 && std::all_of(refs.begin(), refs.end(), [&](const TensorRef* r) {
        return cuda::packs_fit(r->ptr<T>(), flat ? 0 : r->row_stride, kWidth);
      });
  const cuda::ElementUnits units(flat ? 1 : op.dy.rows(), row_size, packs ? kWidth : 1);
  cuda::launch(ctx, ElementwiseMultiplyBwd::kName,
               dim3(cuda::grid_for(units.count, cuda::kThreads)), dim3(cuda::kThreads), 0,
               packs ? &multiply_backward<kWidth, kGroup, T, Capacity>
                     : &multiply_backward<1, kGroup, T, Capacity>,
               units, cuda::rows_of<const T>(op.dy), factors_of<T, Capacity>(op));
}

void elementwise_multiply_bwd_kernel(const OpContext& ctx, const ElementwiseMultiplyBwd& op) {
  if (op.dy.size() == 0 || op.dxs.empty()) return;
  HCTR_CHECK(op.xs.size() <= kMost, ElementwiseMultiplyBwd::kName, ": ", op.xs.size(),
             " inputs; a GPU takes at most ", kMost, ": multiply them in two steps");
  cuda::with_real_type(op.dy.dtype, [&]<class T>(T) {
    if (op.xs.size() <= 2) {
      run_backward<2, T, kFew>(ctx, op);
    } else if (op.xs.size() <= kFew) {
      run_backward<4, T, kFew>(ctx, op);
    } else {
      run_backward<4, T, kMost>(ctx, op);
    }
  });
}

void elementwise_multiply_fwd_kernel(const OpContext& ctx, const ElementwiseMultiplyFwd& op) {
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) {
    cuda::fold_rows<T>(ctx, ElementwiseMultiplyFwd::kName, Product{}, op.y, op.xs);
  });
}

const OpRegistration<ElementwiseMultiplyFwd> elementwise_multiply_fwd_cuda{
    DeviceType::Cuda, &elementwise_multiply_fwd_kernel};
const OpRegistration<ElementwiseMultiplyBwd> elementwise_multiply_bwd_cuda{
    DeviceType::Cuda, &elementwise_multiply_bwd_kernel};

}  // namespace
}  // namespace hugectr
