// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cublas_lt_matmul.hpp"
#include "core/cuda/ops/aligned_product.hpp"
#include "core/cuda/ops/gemm.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

// What is left when there is no product to take, or it lies elsewhere, or the library has no such
// end.
template <int kVec, class T>
struct EndRows {
  Rows<T> c;
  Rows<const T> addend;
  Rows<const float> product;
  const T* bias;
  float scale;
  bool relu;

  __device__ Pack<float, kVec> columns(std::size_t group) const {
    Pack<float, kVec> biases{};
    if (bias != nullptr) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) biases.v[i] = widen(bias[group * kVec + i]);
    }
    return biases;
  }
  __device__ void operator()(std::size_t row, std::size_t group,
                             const Pack<float, kVec>& biases) const {
    T* target = c.at(row, group * kVec);
    Pack<float, kVec> values{};
    if (scale != 0.0f) values = load_widened<kVec>(target);
    Pack<float, kVec> more{};
    if (addend.data != nullptr) more = load_widened<kVec>(addend.at(row, group * kVec));
    Pack<float, kVec> sums{};
    if (product.data != nullptr) sums = load_pack<kVec>(product.at(row, group * kVec));
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float value = scale * values.v[i] + sums.v[i] + more.v[i] + biases.v[i];
      values.v[i] = relu && value < 0.0f ? 0.0f : value;
    }
    store_narrowed<kVec>(target, values);
  }
};

template <int kVec, class T>
void run_end(const OpContext& context, const Matrix& c, float scale, const ProductEnd& end,
             const Matrix& product) {
  for_each_row(context, "gemm end", c.rows, c.columns / kVec,
               EndRows<kVec, T>{{c.ptr<T>(), c.stride},
                                {static_cast<const T*>(end.addend), end.addend_stride},
                                {product.ptr<float>(), product.stride},
                                static_cast<const T*>(end.bias),
                                scale,
                                end.relu});
}

LtMatrix stored(const Matrix& m) { return {m.data, m.dtype, m.rows, m.columns, m.stride}; }

// False when the library has no such product; nothing was launched then.
bool try_product(const OpContext& context, const GemmArgs& g, const ProductEnd& end) {
  LtMatmul matmul{.transpose_a = g.transpose_a,
                  .transpose_b = g.transpose_b,
                  .a = stored(g.a),
                  .b = stored(g.b),
                  .c = stored(g.c),
                  .d = stored(g.c),
                  .alpha = g.alpha,
                  .beta = g.beta,
                  .bias = end.bias};
  if (end.addend != nullptr) {
    matmul.c.data = const_cast<void*>(end.addend);
    matmul.c.stride = end.addend_stride;
    matmul.beta = 1.0f;
  }
  if (end.bias != nullptr) {
    matmul.epilogue = end.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  } else if (end.relu) {
    matmul.epilogue = CUBLASLT_EPILOGUE_RELU;
  }
  return try_matmul(context, matmul);
}

void product_alone(const OpContext& context, const GemmArgs& g, const ProductEnd& end) {
  if (try_product(context, g, end)) return;
  throw DeviceError(concat("gemm: cuBLASLt has no algorithm for ", to_string(g.a.dtype), " m ",
                           g.m(), ", n ", g.n(), ", k ", g.k(), " into ", to_string(g.c.dtype),
                           " with row strides ", g.a.stride, ", ", g.b.stride, ", ", g.c.stride,
                           "; make the row strides smaller or update cuBLASLt"));
}

void gemm_kernel(const OpContext& context, const Gemm& op) {
  gemm(context, GemmArgs{.transpose_a = op.transpose_a,
                         .transpose_b = op.transpose_b,
                         .a = op.a,
                         .b = op.b,
                         .c = op.c,
                         .alpha = static_cast<float>(op.alpha),
                         .beta = static_cast<float>(op.beta)});
}

const OpRegistration<Gemm> gemm_cuda{DeviceType::Cuda, &gemm_kernel};

}  // namespace

void end_product(const OpContext& context, const Matrix& c, float scale, const ProductEnd& end,
                 const Matrix& product) {
  if (scale == 1.0f && product.empty() && end.bias == nullptr && end.addend == nullptr &&
      !end.relu) {
    return;
  }
  with_real_type(c.dtype, [&]<class T>(T) {
    constexpr int kVec = 16 / sizeof(T);
    const bool packs = matrix_allows_packs<kVec>(c.ptr<T>(), c.stride, c.rows, c.columns) &&
                       matrix_allows_packs<kVec>(static_cast<const T*>(end.addend),
                                                 end.addend_stride, c.rows, c.columns);
    packs ? run_end<kVec, T>(context, c, scale, end, product)
          : run_end<1, T>(context, c, scale, end, product);
  });
}

void gemm(const OpContext& context, const GemmArgs& g, const ProductEnd& end) {
  if (g.m() == 0 || g.n() == 0) return;
  HCTR_CHECK(end.addend == nullptr || g.beta == 0.0f, "gemm: an addend needs beta 0");
  if (g.k() == 0) return end_product(context, g.c, g.beta, end);
  const AlignedProduct aligned = align_product(context, g);
  if (aligned.result_elsewhere) {
    product_alone(context, aligned.args, {});
    return end_product(context, g.c, g.beta, end, aligned.args.c);
  }
  if (aligned.args.n() != g.n()) {  // bias and addend end before the widened rows do
    product_alone(context, aligned.args, {});
    return end_product(context, g.c, 1.0f, end);
  }
  if (try_product(context, aligned.args, end)) return;
  // Some ends do not go with some shapes: the end as a pass of its own.
  product_alone(context, aligned.args, {.addend = end.addend, .addend_stride = end.addend_stride});
  end_product(context, g.c, 1.0f, {.bias = end.bias, .relu = end.relu});
}

}  // namespace hugectr::cuda
