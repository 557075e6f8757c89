// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/linear.hpp"
#include "core/cuda/ops/gemm.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

struct NoColumns {};

// dz and the pieces' column sums of it in one pass. Floor: reads dy, with an activation reads y and
// writes dz: 3 accesses an element. dz may be dy.
template <int kVec, bool kMasked, class T>
struct GradientRows {
  using Sum = float;
  static constexpr int kSums = kVec;
  struct Row {
    Pack<T, kVec> dy, y;
  };
  Rows<const T> y, dy;
  Rows<T> dz;
  Rows<float> partial;  // without data when the sums are not wanted

  __device__ NoColumns columns(std::size_t) const { return {}; }
  __device__ Row load(std::size_t row, std::size_t group) const {
    Row loaded;
    loaded.dy = load_pack<kVec>(dy.at(row, group * kVec));
    if constexpr (kMasked) loaded.y = load_pack<kVec>(y.at(row, group * kVec));
    return loaded;
  }
  __device__ void add(const Row& loaded, std::size_t row, std::size_t group, NoColumns,
                      float* sums) const {
    Pack<T, kVec> gradient = loaded.dy;
    if constexpr (kMasked) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        if (!(widen(loaded.y.v[i]) > 0.0f)) gradient.v[i] = T{};
      }
      store_pack<kVec>(dz.at(row, group * kVec), gradient);
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) sums[i] += widen(gradient.v[i]);
  }
  __device__ void store(std::size_t piece, std::size_t group, const float* sums) const {
    if (partial.data == nullptr) return;
#pragma unroll
    for (int i = 0; i < kVec; ++i) *partial.at(piece, group * kVec + i) = sums[i];
  }
};

template <int kVec, bool kMasked, class T>
void gradient_rows(const OpContext& context, const LinearBwd& op) {
  const Matrix y(op.y), dy(op.dy), dz(op.dz);
  GradientRows<kVec, kMasked, T> body{
      {}, {dy.ptr<T>(), dy.stride}, {}, rows_of<float>(op.db.empty() ? TensorRef{} : op.partial)};
  if constexpr (kMasked) {
    body.y = {y.ptr<T>(), y.stride};
    body.dz = {dz.ptr<T>(), dz.stride};
  }
  sum_tiles(context, "linear_bwd dz", dy.rows, dy.columns / kVec, body);
}

void linear_bwd_elements(const OpContext& context, const LinearBwd& op) {
  const bool masked = op.activation == Activation::Relu;
  if (!masked && op.db.empty()) return;
  with_real_type(op.dy.dtype, [&]<class T>(T) {
    constexpr int kVec = 16 / sizeof(T);
    const auto allows_packs = [](const Matrix& m) {
      return matrix_allows_packs<kVec>(m.ptr<T>(), m.stride, m.rows, m.columns);
    };
    if (masked) {
      allows_packs(op.dy) && allows_packs(op.y) && allows_packs(op.dz)
          ? gradient_rows<kVec, true, T>(context, op)
          : gradient_rows<1, true, T>(context, op);
    } else {
      allows_packs(op.dy) ? gradient_rows<kVec, false, T>(context, op)
                          : gradient_rows<1, false, T>(context, op);
    }
  });
  if (!op.db.empty()) {
    finish_tiles<float>(context, "linear_bwd db", op.partial, AddToGradient{op.db.ptr<float>()});
  }
}

// Floor: 2 rows n m flops.
void linear_fwd_kernel(const OpContext& context, const LinearFwd& op) {
  gemm(context, GemmArgs{.a = op.x, .b = op.w, .c = op.y},
       ProductEnd{.bias = op.b.data, .relu = op.activation == Activation::Relu});
}

// Floor: 4 rows n m flops with dx, 2 without.
void linear_bwd_kernel(const OpContext& context, const LinearBwd& op) {
  linear_bwd_elements(context, op);
  const TensorRef& dz = op.activation == Activation::Relu ? op.dz : op.dy;
  if (!op.dx.empty()) gemm(context, GemmArgs{.transpose_b = true, .a = dz, .b = op.w, .c = op.dx});
  gemm(context, GemmArgs{.transpose_a = true, .a = op.x, .b = dz, .c = op.dw, .beta = 1.0f});
}

const OpRegistration<LinearFwd> linear_fwd_cuda{DeviceType::Cuda, &linear_fwd_kernel};
const OpRegistration<LinearBwd> linear_bwd_cuda{DeviceType::Cuda, &linear_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
