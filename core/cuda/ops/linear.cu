// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/relu.hpp"
#include "core/cuda/ops/gemm.hpp"
#include "core/cuda/primitives/column_tiles.cuh"

namespace hugectr::cuda {
namespace {

// A batch-major tensor as a matrix: all dimensions but the last count as rows.
struct Matrix {
  explicit Matrix(const TensorRef& ref)
      : data(ref.empty() ? nullptr : ref.ptr<float>()),
        columns(ref.empty() ? 0 : ref.shape.back()),
        rows(columns == 0 ? 0 : ref.size() / columns),
        stride(ref.shape.size() == 2 ? ref.row_stride : columns) {}
  bool allows_16_bytes() const { return matrix_allows_16_bytes(data, stride, rows, columns); }

  float* data;
  std::size_t columns, rows, stride;
};

struct NoColumns {};

// dz and the pieces' column sums of it in one pass. Floor: reads dy, with an activation reads y and
// writes dz: 12 bytes an element. dz may be dy.
template <int kVec, bool kMasked>
struct GradientRows {
  using Sum = float;
  static constexpr int kSums = kVec;
  struct Row {
    Pack<float, kVec> dy, y;
  };
  Rows<const float> y, dy;
  Rows<float> dz;
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
    Pack<float, kVec> gradient = loaded.dy;
    if constexpr (kMasked) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        gradient.v[i] = relu_gradient(loaded.y.v[i], gradient.v[i]);
      }
      store_pack<kVec>(dz.at(row, group * kVec), gradient);
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) sums[i] += gradient.v[i];
  }
  __device__ void store(std::size_t piece, std::size_t group, const float* sums) const {
    if (partial.data == nullptr) return;
#pragma unroll
    for (int i = 0; i < kVec; ++i) *partial.at(piece, group * kVec + i) = sums[i];
  }
};

template <int kVec, bool kMasked>
void gradient_rows(const OpContext& context, const LinearBwd& op) {
  const Matrix y(op.y), dy(op.dy), dz(op.dz);
  const GradientRows<kVec, kMasked> body{
      {y.data, y.stride},
      {dy.data, dy.stride},
      {dz.data, dz.stride},
      op.db.empty() ? Rows<float>{} : rows_of<float>(op.partial)};
  sum_tiles(context, "linear_bwd dz", dy.rows, dy.columns / kVec, body);
}

void linear_bwd_elements(const OpContext& context, const LinearBwd& op) {
  const bool masked = op.activation == Activation::Relu;
  if (!masked && op.db.empty()) return;
  bool packs = Matrix(op.dy).allows_16_bytes();
  if (masked) packs = packs && Matrix(op.y).allows_16_bytes() && Matrix(op.dz).allows_16_bytes();
  if (masked) {
    packs ? gradient_rows<4, true>(context, op) : gradient_rows<1, true>(context, op);
  } else {
    packs ? gradient_rows<4, false>(context, op) : gradient_rows<1, false>(context, op);
  }
  if (!op.db.empty()) {
    finish_tiles<float>(context, "linear_bwd db", op.partial, AddToGradient{op.db.ptr<float>()});
  }
}

// Floor: 2 rows n m flops.
void linear_fwd_kernel(const OpContext& context, const LinearFwd& op) {
  const Matrix x(op.x), y(op.y);
  gemm(context,
       GemmArgs{.m = y.rows,
                .n = y.columns,
                .k = x.columns,
                .a = x.data,
                .a_stride = x.stride,
                .b = op.w.ptr<float>(),
                .b_stride = y.columns,
                .c = y.data,
                .c_stride = y.stride},
       ProductEnd{.bias = op.b.empty() ? nullptr : op.b.ptr<float>(),
                  .relu = op.activation == Activation::Relu});
}

// Floor: 4 rows n m flops with dx, 2 without.
void linear_bwd_kernel(const OpContext& context, const LinearBwd& op) {
  linear_bwd_elements(context, op);
  const Matrix x(op.x), dz(op.activation == Activation::Relu ? op.dz : op.dy);
  if (!op.dx.empty()) {
    const Matrix dx(op.dx);
    gemm(context, GemmArgs{.transpose_b = true,
                           .m = x.rows,
                           .n = x.columns,
                           .k = dz.columns,
                           .a = dz.data,
                           .a_stride = dz.stride,
                           .b = op.w.ptr<float>(),
                           .b_stride = dz.columns,
                           .c = dx.data,
                           .c_stride = dx.stride});
  }
  gemm(context, GemmArgs{.transpose_a = true,
                         .m = x.columns,
                         .n = dz.columns,
                         .k = x.rows,
                         .a = x.data,
                         .a_stride = x.stride,
                         .b = dz.data,
                         .b_stride = dz.stride,
                         .beta = 1.0f,
                         .c = op.dw.ptr<float>(),
                         .c_stride = dz.columns});
}

const OpRegistration<LinearFwd> linear_fwd_cuda{DeviceType::Cuda, &linear_fwd_kernel};
const OpRegistration<LinearBwd> linear_bwd_cuda{DeviceType::Cuda, &linear_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
