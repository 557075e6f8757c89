// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/softmax.hpp"
#include "core/cuda/primitives/held_rows.cuh"

namespace hugectr::cuda {
namespace {

struct NoLaneColumns {};

// Floor: reads x (and the mask), writes y.
template <class T, class Cut, bool kMasked>
struct SoftmaxForward {
  Rows<const T> x, mask;
  Rows<T> y;
  SoftmaxMaskRows mask_rows;
  std::size_t n;

  __device__ NoLaneColumns columns(int) const { return {}; }
  __device__ void operator()(std::size_t row, bool there, int lane, NoLaneColumns) const {
    const std::size_t safe = there ? row : 0;
    const LaneOfRow<T, Cut> values(x.at(safe, 0), there, lane, n);
    const LaneOfRow<T, Cut> masks(kMasked ? mask.at(mask_rows(safe), 0) : nullptr, there && kMasked,
                                  lane, n);
    const auto value = [&](int i, int k) {
      const float v = values[i].v[k];
      return kMasked ? softmax_masked(v, masks[i].v[k]) : v;
    };
    float most = -INFINITY;
    for_each_pack<Cut>(lane, n, [&](int i, std::size_t column) {
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        if (column + k < n) most = fmaxf(most, value(i, k));
      }
    });
    most = group_max<Cut::W>(most);
    float sum = 0.0f;
    for_each_pack<Cut>(lane, n, [&](int i, std::size_t column) {
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        if (column + k < n) sum += __expf(value(i, k) - most);
      }
    });
    const float scale = 1.0f / group_sum<Cut::W>(sum);
    if (!there) return;
    for_each_pack<Cut>(lane, n, [&](int i, std::size_t column) {
      Pack<float, Cut::V> result;
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) result.v[k] = __expf(value(i, k) - most) * scale;
      store_lane_pack<Cut::V>(y.at(row, 0), column, n, result);
    });
  }
};

// Floor: reads y and dy, writes dx.
template <class T, class Cut>
struct SoftmaxBackward {
  Rows<const T> y, dy;
  Rows<T> dx;
  std::size_t n;

  __device__ NoLaneColumns columns(int) const { return {}; }
  __device__ void operator()(std::size_t row, bool there, int lane, NoLaneColumns) const {
    const std::size_t safe = there ? row : 0;
    const LaneOfRow<T, Cut> values(y.at(safe, 0), there, lane, n);
    const LaneOfRow<T, Cut> gradients(dy.at(safe, 0), there, lane, n);
    float dot = 0.0f;
    for_each_pack<Cut>(lane, n, [&](int i, std::size_t) {
      const auto v = values[i], g = gradients[i];
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) dot += v.v[k] * g.v[k];
    });
    dot = group_sum<Cut::W>(dot);
    if (!there) return;
    for_each_pack<Cut>(lane, n, [&](int i, std::size_t column) {
      const auto v = values[i];
      auto g = gradients[i];
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) g.v[k] = v.v[k] * (g.v[k] - dot);
      store_lane_pack<Cut::V>(dx.at(row, 0), column, n, g);
    });
  }
};

void softmax_fwd_kernel(const OpContext& ctx, const SoftmaxFwd& op) {
  const TensorRef x = last_axis_rows(op.x), y = last_axis_rows(op.y);
  const TensorRef mask = last_axis_rows(op.mask);
  with_row_cut(
      [&]<class T, class Cut>(T, Cut) {
        const auto run = [&]<bool kMasked>() {
          const SoftmaxForward<T, Cut, kMasked> body{rows_of<const T>(x), rows_of<const T>(mask),
                                                     rows_of<T>(y), op.mask_rows(), x.row_size()};
          for_each_held_row<Cut>(ctx, SoftmaxFwd::kName, x.rows(), body);
        };
        mask.empty() ? run.template operator()<false>() : run.template operator()<true>();
      },
      x, mask, y);
}

void softmax_bwd_kernel(const OpContext& ctx, const SoftmaxBwd& op) {
  const TensorRef y = last_axis_rows(op.y), dy = last_axis_rows(op.dy);
  const TensorRef dx = last_axis_rows(op.dx);
  with_row_cut(
      [&]<class T, class Cut>(T, Cut) {
        const SoftmaxBackward<T, Cut> body{rows_of<const T>(y), rows_of<const T>(dy),
                                           rows_of<T>(dx), y.row_size()};
        for_each_held_row<Cut>(ctx, SoftmaxBwd::kName, y.rows(), body);
      },
      y, dy, dx);
}

const OpRegistration<SoftmaxFwd> softmax_fwd_cuda{DeviceType::Cuda, &softmax_fwd_kernel};
const OpRegistration<SoftmaxBwd> softmax_bwd_cuda{DeviceType::Cuda, &softmax_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
