// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/projected_cross.hpp"
#include "core/cuda/ops/gemm.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/row_tail.cuh"

namespace hugectr::cuda {
namespace {

struct NoColumns {};

// y = x0 * z + x. Floor: 4 elements moved for each of y.
template <class T, int kVec>
struct CrossRows {
  Rows<const T> x0, x, z;
  Rows<T> y;
  std::size_t n;

  __device__ NoColumns columns(std::size_t) const { return {}; }
  __device__ void operator()(std::size_t row, std::size_t group, NoColumns) const {
    const std::size_t column = group * kVec;
    const auto input = load_row_widened<kVec>(x0.at(row, 0), column, n);
    const auto factor = load_row_widened<kVec>(z.at(row, 0), column, n);
    auto values = load_row_widened<kVec>(x.at(row, 0), column, n);
#pragma unroll
    for (int i = 0; i < kVec; ++i) values.v[i] = input.v[i] * factor.v[i] + values.v[i];
    store_row_narrowed<kVec>(y.at(row, 0), column, n, values);
  }
};

// dz, the pieces' sums of it, and dy's direct way into dx0. Floor: 3 elements moved for each of dz,
// 5 with dx0, 6 when that accumulates.
template <class T, int kVec>
struct BackwardRows {
  using Sum = float;
  static constexpr int kSums = kVec;
  static constexpr int kInFlight = 1;  // four packs of a row: 61 registers, two blocks
  struct Row {
    Pack<T, kVec> x0, dy, z, dx0;
  };
  Rows<const T> x0, dy, z;
  Rows<T> dz, dx0;  // dx0 without data when it is not wanted
  Rows<float> partial;
  std::size_t n;
  bool accumulate;
  float one;  // 1 when x is x0: y = x0 * z + x0

  __device__ NoColumns columns(std::size_t) const { return {}; }
  __device__ Row load(std::size_t row, std::size_t group) const {
    const std::size_t column = group * kVec;
    Row loaded{};
    loaded.x0 = load_row_pack<kVec>(x0.at(row, 0), column, n);
    loaded.dy = load_row_pack<kVec>(dy.at(row, 0), column, n);
    if (dx0.data == nullptr) return loaded;
    loaded.z = load_row_pack<kVec>(z.at(row, 0), column, n);
    // Ahead as the others: behind a store to the row above it, each would wait for memory alone.
    if (accumulate) loaded.dx0 = load_row_pack<kVec>(dx0.at(row, 0), column, n);
    return loaded;
  }
  __device__ void add(const Row& loaded, std::size_t row, std::size_t group, NoColumns,
                      float* sums) const {
    const std::size_t column = group * kVec;
    const auto gradient = widen_pack(loaded.dy), input = widen_pack(loaded.x0);
    Pack<float, kVec> product;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      product.v[i] = gradient.v[i] * input.v[i];
      sums[i] += product.v[i];
    }
    store_row_narrowed<kVec>(dz.at(row, 0), column, n, product);
    if (dx0.data == nullptr) return;
    Pack<float, kVec> direct = widen_pack(loaded.dx0);  // zeros where it does not accumulate
#pragma unroll
    for (int i = 0; i < kVec; ++i) direct.v[i] += gradient.v[i] * (widen(loaded.z.v[i]) + one);
    store_row_narrowed<kVec>(dx0.at(row, 0), column, n, direct);
  }
  __device__ void store(std::size_t piece, std::size_t group, const float* sums) const {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      if (group * kVec + i < n) *partial.at(piece, group * kVec + i) = sums[i];
    }
  }
};

template <class T, int kVec>
void cross_rows(const OpContext& ctx, const ProjectedCrossFwd& op) {
  const std::size_t n = op.x0.row_size();
  const CrossRows<T, kVec> body{rows_of<const T>(op.x0), rows_of<const T>(op.x),
                                rows_of<const T>(op.z), rows_of<T>(op.y), n};
  for_each_row(ctx, "projected_cross_fwd y", op.x0.rows(), packs_of(n, kVec), body);
}

template <class T, int kVec>
void backward_rows(const OpContext& ctx, const ProjectedCrossBwd& op) {
  const std::size_t n = op.x0.row_size();
  const BackwardRows<T, kVec> body{rows_of<const T>(op.x0),
                                   rows_of<const T>(op.dy),
                                   rows_of<const T>(op.z),
                                   rows_of<T>(op.dz),
                                   rows_of<T>(op.dx0),
                                   rows_of<float>(op.partial),
                                   n,
                                   op.accumulate,
                                   op.x_is_x0 ? 1.0f : 0.0f};
  sum_tiles(ctx, "projected_cross_bwd dz", op.x0.rows(), packs_of(n, kVec), body);
}

GemmArgs product(const TensorRef& a, bool transpose_a, const TensorRef& b, bool transpose_b,
                 const TensorRef& c, float beta) {
  return {
      .transpose_a = transpose_a, .transpose_b = transpose_b, .a = a, .b = b, .c = c, .beta = beta};
}

void projected_cross_fwd_kernel(const OpContext& ctx, const ProjectedCrossFwd& op) {
  gemm(ctx, product(op.x, false, op.u, false, op.h, 0.0f));
  gemm(ctx, product(op.h, false, op.v, false, op.z, 0.0f), {.bias = op.bias.data});
  with_packs([&]<class T, int kVec>(
                 T, std::integral_constant<int, kVec>) { cross_rows<T, kVec>(ctx, op); },
             op.x0, op.x, op.z, op.y);
}

void projected_cross_bwd_kernel(const OpContext& ctx, const ProjectedCrossBwd& op) {
  with_packs([&]<class T, int kVec>(
                 T, std::integral_constant<int, kVec>) { backward_rows<T, kVec>(ctx, op); },
             op.x0, op.dy, op.z, op.dz, op.dx0);
  finish_tiles<float>(ctx, "projected_cross_bwd dbias", op.partial,
                      AddToGradient{op.dbias.ptr<float>()});
  gemm(ctx, product(op.dz, false, op.v, true, op.dh, 0.0f));
  gemm(ctx, product(op.h, true, op.dz, false, op.dv, 1.0f));
  gemm(ctx, product(op.x, true, op.dh, false, op.du, 1.0f));
  if (op.x_is_x0) {
    if (!op.dx0.empty()) gemm(ctx, product(op.dh, false, op.u, true, op.dx0, 1.0f));
  } else if (!op.dx.empty()) {
    gemm(ctx, product(op.dh, false, op.u, true, op.dx, 0.0f),
         {.addend = op.dy.data, .addend_stride = op.dy.row_stride});
  }
}

const OpRegistration<ProjectedCrossFwd> projected_cross_fwd_cuda{DeviceType::Cuda,
                                                                 &projected_cross_fwd_kernel};
const OpRegistration<ProjectedCrossBwd> projected_cross_bwd_cuda{DeviceType::Cuda,
                                                                 &projected_cross_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
