// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/linear.hpp"
#include "core/cuda/ops/float8_product.hpp"
#include "core/cuda/ops/gemm.hpp"
#include "core/cuda/ops/linear_one_output.hpp"
#include "core/cuda/ops/masked_product.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/float_scratch.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

using Copies = Float8Factor::Copies;

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
        if (widen(loaded.y.v[i]) <= 0.0f) gradient.v[i] = T{};
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
void gradient_rows(const OpContext& context, const Matrix& y, const Matrix& dy, const Matrix& dz,
                   const TensorRef& partial) {
  GradientRows<kVec, kMasked, T> body{{}, {dy.ptr<T>(), dy.stride}, {}, rows_of<float>(partial)};
  if constexpr (kMasked) {
    body.y = {y.ptr<T>(), y.stride};
    body.dz = {dz.ptr<T>(), dz.stride};
  }
  const std::size_t groups = dy.columns / kVec;
  sum_tiles(context, "linear_bwd dz", dy.rows, groups, body,
            {.max_width = filling_width(dy.rows, groups)});
}

// dz = 0 where y <= 0 (where there is a y), else dy, and its column sums (where they are wanted).
void mask_and_sum(const OpContext& context, const Matrix& y, const Matrix& dy, const Matrix& dz,
                  const TensorRef& sums, const TensorRef& partial, bool overwrite) {
  if (y.empty() && sums.empty()) return;
  with_real_type(dy.dtype, [&]<class T>(T) {
    constexpr int kVec = 16 / sizeof(T);
    const auto allows_packs = [](const Matrix& m) {
      return matrix_allows_packs<kVec>(m.ptr<T>(), m.stride, m.rows, m.columns);
    };
    const TensorRef pieces = sums.empty() ? TensorRef{} : partial;
    if (y.empty()) {
      allows_packs(dy) ? gradient_rows<kVec, false, T>(context, y, dy, dz, pieces)
                       : gradient_rows<1, false, T>(context, y, dy, dz, pieces);
    } else {
      allows_packs(dy) && allows_packs(y) && allows_packs(dz)
          ? gradient_rows<kVec, true, T>(context, y, dy, dz, pieces)
          : gradient_rows<1, true, T>(context, y, dy, dz, pieces);
    }
  });
  if (sums.empty()) return;
  finish_tiles<float>(context, "linear_bwd db", partial,
                      AddToGradient{sums.ptr<float>(), overwrite});
}

Matrix with_padding(const TensorRef& ref, bool padded) {
  Matrix result(ref);
  if (padded) result.spare = round_up(result.columns, 8) - result.columns;
  return result;
}

// Floor: 2 rows n m flops.
void linear_fwd_kernel(const OpContext& context, const LinearFwd& op) {
  const ProductEnd end{.bias = op.b.data,
                       .relu = op.activation == Activation::Relu,
                       .addend = op.addend.data,
                       .addend_stride = Matrix(op.addend).stride};
  if (op.fp8) {
    const Float8Factor x(context, op.x, Float8::E4M3, Copies::AsItIs);
    const Float8Factor w(context, op.w, Float8::E4M3, Copies::Transposed);
    return float8_product(context, x.as_it_is(), w.transposed(), op.y, 0.0f, end);
  }
  if (op.w.shape[1] == 1) return one_output_forward(context, op);
  gemm(context, GemmArgs{.a = with_padding(op.x, op.padded), .b = op.w, .c = op.y}, end);
}

// dx and db_below. Floor: 2 rows n m flops; reads dz, and x where there is a relu below; writes dx.
void gradient_of_input(const OpContext& context, const LinearBwd& op) {
  const bool masked = op.below == Activation::Relu;
  const MaskedProduct product{.a = op.gradient(),
                              .w = op.w,
                              .x = op.x,
                              .dx = op.dx,
                              .sums = op.db_below.empty() ? nullptr : op.db_below.ptr<float>(),
                              .overwrite = op.overwrite_below};
  if (masked && try_masked_product(context, product)) return;
  gemm(context, GemmArgs{.transpose_b = true,
                         .a = op.gradient(),
                         .b = op.w,
                         .c = with_padding(op.dx, op.dx_padded)});
  if (!masked) return;
  mask_and_sum(context, op.x, op.dx, op.dx, op.db_below, op.partial_below, op.overwrite_below);
}

// The products of the backward pass, of dz once it is there.
void products_in_8_bits(const OpContext& context, const LinearBwd& op) {
  const bool with_dx = !op.dx.empty();
  const Float8Factor dz(context, op.gradient(), Float8::E5M2,
                        with_dx ? Copies::Both : Copies::Transposed);
  if (with_dx) {
    const Float8Factor w(context, op.w, Float8::E4M3, Copies::AsItIs);
    float8_product(context, dz.as_it_is(), w.as_it_is(), with_padding(op.dx, op.dx_padded));
    if (op.below == Activation::Relu) {
      mask_and_sum(context, op.x, op.dx, op.dx, op.db_below, op.partial_below, op.overwrite_below);
    }
  }
  const Float8Factor x(context, op.x, Float8::E4M3, Copies::Transposed);
  float8_product(context, x.transposed(), dz.transposed(), op.dw, op.overwrite ? 0.0f : 1.0f);
}

// Floor: 4 rows n m flops with dx, 2 without.
void linear_bwd_kernel(const OpContext& context, const LinearBwd& op) {
  if (!op.fp8 && op.w.shape[1] == 1 && takes_one_output_backward(context, op)) {
    return one_output_backward(context, op);
  }
  const bool masked = op.activation == Activation::Relu;
  mask_and_sum(context, masked ? op.y : TensorRef{}, op.dy, op.dz, op.db, op.partial, op.overwrite);
  if (op.fp8) return products_in_8_bits(context, op);
  if (!op.dx.empty()) gradient_of_input(context, op);
  gemm(context, GemmArgs{.transpose_a = true,
                         .a = with_padding(op.x, op.padded),
                         .b = op.gradient(),
                         .c = op.dw,
                         .beta = op.overwrite ? 0.0f : 1.0f});
}

const OpRegistration<LinearFwd> linear_fwd_cuda{DeviceType::Cuda, &linear_fwd_kernel};
const OpRegistration<LinearBwd> linear_bwd_cuda{DeviceType::Cuda, &linear_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
