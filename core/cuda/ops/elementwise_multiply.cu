// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "core/cpp/ops/elementwise_multiply.hpp"
#include "core/cuda/primitives/fold_rows.cuh"

namespace hugectr {
namespace {

constexpr int kWidth = 4;
constexpr std::size_t kInputs = 64;  // of one launch: they travel in its parameters

struct Product {
  __device__ float operator()(float a, float b) const { return a * b; }
};

/// Neighbouring inputs of one launch. dxs without data are not wanted.
struct Factors {
  cuda::Rows<const float> xs[kInputs];
  cuda::Rows<float> dxs[kInputs];
  int count = 0;
};
static_assert(sizeof(Factors) <= 3072, "must fit the parameters of a launch");

template <int V>
__device__ void multiply(cuda::Pack<float, V>& product, const cuda::Pack<float, V>& x) {
#pragma unroll
  for (int k = 0; k < V; ++k) product.v[k] *= x.v[k];
}

// dx_i = (dy * x_0 .. x_{i-1}) * (x_{i+1} .. x_last), for N inputs that fit the registers.
// Moves 4 bytes an element of dy, of every x and of every dx.
template <int V, int N>
__global__ void few_backward(cuda::ElementUnits units, const __grid_constant__ Factors factors,
                             cuda::Rows<const float> dy) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    column *= V;
    cuda::Pack<float, V> x[N], behind[N], before = cuda::load_pack<V>(dy.at(row, column));
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = cuda::load_pack<V>(factors.xs[i].at(row, column));
#pragma unroll
    for (int k = 0; k < V; ++k) behind[N - 1].v[k] = 1.0f;
#pragma unroll
    for (int i = N - 1; i > 0; --i) {
      behind[i - 1] = behind[i];
      multiply<V>(behind[i - 1], x[i]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      multiply<V>(behind[i], before);
      if (factors.dxs[i].data != nullptr) {
        cuda::store_pack<V>(factors.dxs[i].at(row, column), behind[i]);
      }
      multiply<V>(before, x[i]);
    }
  }
}

// The same for any number, a group of inputs a launch, in two walks. Back: from the last input to
// the first, leaves the product of the inputs behind each one in its dx. `carried`, when not null,
// holds the product of the inputs behind this group (unless it is the last) and takes that of the
// group as well; its rows lie one after the other.
template <int V>
__global__ void walk_back(cuda::ElementUnits units, const __grid_constant__ Factors factors,
                          float* carried, bool last) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    column *= V;
    cuda::Pack<float, V> product;
#pragma unroll
    for (int k = 0; k < V; ++k) product.v[k] = 1.0f;
    if (!last) product = cuda::load_pack<V>(carried + u * V);
    for (int i = factors.count - 1; i >= 0; --i) {
      if (factors.dxs[i].data != nullptr) {
        cuda::store_pack<V>(factors.dxs[i].at(row, column), product);
      }
      multiply<V>(product, cuda::load_pack<V>(factors.xs[i].at(row, column)));
    }
    if (carried != nullptr) cuda::store_pack<V>(carried + u * V, product);
  }
}

// On: from the first input to the last with dy and the product of the inputs before.
template <int V>
__global__ void walk_on(cuda::ElementUnits units, const __grid_constant__ Factors factors,
                        cuda::Rows<const float> dy, float* carried, bool first) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t u = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       u < units.count; u += step) {
    std::size_t column;
    const std::size_t row = units.per_row.divide(u, column);
    column *= V;
    cuda::Pack<float, V> product = cuda::load_pack<V>(first ? dy.at(row, column) : carried + u * V);
    for (int i = 0; i < factors.count; ++i) {
      if (factors.dxs[i].data != nullptr) {
        float* dx = factors.dxs[i].at(row, column);
        cuda::Pack<float, V> result = cuda::load_pack<V>(dx);
        multiply<V>(result, product);
        cuda::store_pack<V>(dx, result);
      }
      multiply<V>(product, cuda::load_pack<V>(factors.xs[i].at(row, column)));
    }
    if (carried != nullptr) cuda::store_pack<V>(carried + u * V, product);
  }
}

std::vector<Factors> groups_of(const ElementwiseMultiplyBwd& op) {
  std::vector<Factors> groups;
  std::size_t k = 0;
  for (std::size_t i = 0; i < op.xs.size(); ++i) {
    if (i % kInputs == 0) groups.emplace_back();
    Factors& group = groups.back();
    group.xs[group.count] = cuda::rows_of<const float>(op.xs[i]);
    const bool wanted =
        k < op.dxs.size() && (op.wanted.empty() || static_cast<std::size_t>(op.wanted[k]) == i);
    if (wanted) group.dxs[group.count] = cuda::rows_of<float>(op.dxs[k++]);
    ++group.count;
  }
  return groups;
}

template <int V>
void run_backward(const OpContext& ctx, const ElementwiseMultiplyBwd& op, bool flat) {
  constexpr const char* kName = ElementwiseMultiplyBwd::kName;
  const cuda::ElementUnits units(flat ? 1 : op.dy.rows(), flat ? op.dy.size() : op.dy.row_size(),
                                 V);
  const std::vector<Factors> groups = groups_of(op);
  const auto dy = cuda::rows_of<const float>(op.dy);
  const dim3 grid(cuda::grid_for(units.count, cuda::kThreads)), block(cuda::kThreads);
  switch (op.xs.size()) {
    case 1:
      return cuda::launch(ctx, kName, grid, block, 0, &few_backward<V, 1>, units, groups[0], dy);
    case 2:
      return cuda::launch(ctx, kName, grid, block, 0, &few_backward<V, 2>, units, groups[0], dy);
    case 3:
      return cuda::launch(ctx, kName, grid, block, 0, &few_backward<V, 3>, units, groups[0], dy);
    case 4:
      return cuda::launch(ctx, kName, grid, block, 0, &few_backward<V, 4>, units, groups[0], dy);
    default:
      break;
  }
  std::optional<cuda::Scratch> scratch;
  float* carried = nullptr;
  if (groups.size() > 1) {
    scratch.emplace(ctx, op.dy.size() * sizeof(float));
    carried = static_cast<float*>(scratch->data());
  }
  for (std::size_t g = groups.size(); g-- > 0;) {
    cuda::launch(ctx, kName, grid, block, 0, &walk_back<V>, units, groups[g], carried,
                 g + 1 == groups.size());
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    cuda::launch(ctx, kName, grid, block, 0, &walk_on<V>, units, groups[g], dy, carried, g == 0);
  }
}

void elementwise_multiply_bwd_kernel(const OpContext& ctx, const ElementwiseMultiplyBwd& op) {
  if (op.dy.size() == 0 || op.dxs.empty()) return;
  std::vector<const TensorRef*> refs{&op.dy};
  for (const TensorRef& x : op.xs) refs.push_back(&x);
  for (const TensorRef& dx : op.dxs) refs.push_back(&dx);
  const bool flat =
      std::all_of(refs.begin(), refs.end(), [](const TensorRef* r) { return r->contiguous(); });
  const std::size_t row_size = flat ? op.dy.size() : op.dy.row_size();
  const bool packs =
      row_size % kWidth == 0 && std::all_of(refs.begin(), refs.end(), [&](const TensorRef* r) {
        return cuda::packs_fit(r->ptr<float>(), flat ? 0 : r->row_stride, kWidth);
      });
  if (packs) {
    run_backward<kWidth>(ctx, op, flat);
  } else {
    run_backward<1>(ctx, op, flat);
  }
}

void elementwise_multiply_fwd_kernel(const OpContext& ctx, const ElementwiseMultiplyFwd& op) {
  cuda::fold_rows(ctx, ElementwiseMultiplyFwd::kName, Product{}, op.y, op.xs);
}

const OpRegistration<ElementwiseMultiplyFwd> elementwise_multiply_fwd_cuda{
    DeviceType::Cuda, &elementwise_multiply_fwd_kernel};
const OpRegistration<ElementwiseMultiplyBwd> elementwise_multiply_bwd_cuda{
    DeviceType::Cuda, &elementwise_multiply_bwd_kernel};

}  // namespace
}  // namespace hugectr
