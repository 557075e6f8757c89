// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/projected_cross.hpp"
#include "core/cuda/ops/gemm.hpp"
#include "core/cuda/primitives/column_tiles.cuh"

namespace hugectr::cuda {
namespace {

struct NoColumns {};

// y = x0 * z + x. Floor: 16 bytes an element.
template <int kVec>
struct CrossRows {
  Rows<const float> x0, x, z;
  Rows<float> y;

  __device__ NoColumns columns(std::size_t) const { return {}; }
  __device__ void operator()(std::size_t row, std::size_t group, NoColumns) const {
    const std::size_t column = group * kVec;
    const Pack<float, kVec> input = load_pack<kVec>(x0.at(row, column));
    const Pack<float, kVec> factor = load_pack<kVec>(z.at(row, column));
    Pack<float, kVec> values = load_pack<kVec>(x.at(row, column));
#pragma unroll
    for (int i = 0; i < kVec; ++i) values.v[i] = input.v[i] * factor.v[i] + values.v[i];
    store_pack<kVec>(y.at(row, column), values);
  }
};

// dz, the pieces' sums of it, and dy's direct way into dx0. Floor: 12 bytes an element, 20 with
// dx0, 24 when that accumulates.
template <int kVec>
struct BackwardRows {
  using Sum = float;
  static constexpr int kSums = kVec;
  struct Row {
    Pack<float, kVec> x0, dy, z;
  };
  Rows<const float> x0, dy, z;
  Rows<float> dz, dx0, partial;  // dx0 without data when it is not wanted
  bool accumulate;
  float one;  // 1 when x is x0: y = x0 * z + x0

  __device__ NoColumns columns(std::size_t) const { return {}; }
  __device__ Row load(std::size_t row, std::size_t group) const {
    const std::size_t column = group * kVec;
    Row loaded;
    loaded.x0 = load_pack<kVec>(x0.at(row, column));
    loaded.dy = load_pack<kVec>(dy.at(row, column));
    if (dx0.data != nullptr) loaded.z = load_pack<kVec>(z.at(row, column));
    return loaded;
  }
  __device__ void add(const Row& loaded, std::size_t row, std::size_t group, NoColumns,
                      float* sums) const {
    const std::size_t column = group * kVec;
    Pack<float, kVec> gradient;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      gradient.v[i] = loaded.dy.v[i] * loaded.x0.v[i];
      sums[i] += gradient.v[i];
    }
    store_pack<kVec>(dz.at(row, column), gradient);
    if (dx0.data == nullptr) return;
    Pack<float, kVec> direct{};
    if (accumulate) direct = load_pack<kVec>(dx0.at(row, column));
#pragma unroll
    for (int i = 0; i < kVec; ++i) direct.v[i] += loaded.dy.v[i] * (loaded.z.v[i] + one);
    store_pack<kVec>(dx0.at(row, column), direct);
  }
  __device__ void store(std::size_t piece, std::size_t group, const float* sums) const {
#pragma unroll
    for (int i = 0; i < kVec; ++i) *partial.at(piece, group * kVec + i) = sums[i];
  }
};

template <int kVec>
void cross_rows(const OpContext& ctx, const ProjectedCrossFwd& op) {
  const CrossRows<kVec> body{rows_of<const float>(op.x0), rows_of<const float>(op.x),
                             rows_of<const float>(op.z), rows_of<float>(op.y)};
  for_each_row(ctx, "projected_cross_fwd y", op.x0.rows(), op.x0.row_size() / kVec, body);
}

template <int kVec>
void backward_rows(const OpContext& ctx, const ProjectedCrossBwd& op) {
  const BackwardRows<kVec> body{rows_of<const float>(op.x0),
                                rows_of<const float>(op.dy),
                                rows_of<const float>(op.z),
                                rows_of<float>(op.dz),
                                rows_of<float>(op.dx0),
                                rows_of<float>(op.partial),
                                op.accumulate,
                                op.x_is_x0 ? 1.0f : 0.0f};
  sum_tiles(ctx, "projected_cross_bwd dz", op.x0.rows(), op.x0.row_size() / kVec, body);
}

GemmArgs product(const TensorRef& a, bool transpose_a, const TensorRef& b, bool transpose_b,
                 const TensorRef& c, float beta) {
  return {
      .transpose_a = transpose_a, .transpose_b = transpose_b, .a = a, .b = b, .c = c, .beta = beta};
}

void projected_cross_fwd_kernel(const OpContext& ctx, const ProjectedCrossFwd& op) {
  gemm(ctx, product(op.x, false, op.u, false, op.h, 0.0f));
  gemm(ctx, product(op.h, false, op.v, false, op.z, 0.0f), {.bias = op.bias.ptr<float>()});
  rows_allow_16_bytes(op.x0, op.x, op.z, op.y) ? cross_rows<4>(ctx, op) : cross_rows<1>(ctx, op);
}

void projected_cross_bwd_kernel(const OpContext& ctx, const ProjectedCrossBwd& op) {
  rows_allow_16_bytes(op.x0, op.dy, op.z, op.dz, op.dx0) ? backward_rows<4>(ctx, op)
                                                         : backward_rows<1>(ctx, op);
  finish_tiles<float>(ctx, "projected_cross_bwd dbias", op.partial,
                      AddToGradient{op.dbias.ptr<float>()});
  gemm(ctx, product(op.dz, false, op.v, true, op.dh, 0.0f));
  gemm(ctx, product(op.h, true, op.dz, false, op.dv, 1.0f));
  gemm(ctx, product(op.x, true, op.dh, false, op.du, 1.0f));
  if (op.x_is_x0) {
    if (!op.dx0.empty()) gemm(ctx, product(op.dh, false, op.u, true, op.dx0, 1.0f));
  } else if (!op.dx.empty()) {
    gemm(ctx, product(op.dh, false, op.u, true, op.dx, 0.0f),
         {.addend = op.dy.ptr<float>(), .addend_stride = op.dy.row_stride});
  }
}

const OpRegistration<ProjectedCrossFwd> projected_cross_fwd_cuda{DeviceType::Cuda,
                                                                 &projected_cross_fwd_kernel};
const OpRegistration<ProjectedCrossBwd> projected_cross_bwd_cuda{DeviceType::Cuda,
                                                                 &projected_cross_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
