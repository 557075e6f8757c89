// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/softmax.hpp"
#include "core/cuda/primitives/held_rows.cuh"
#include "core/cuda/primitives/special_functions.cuh"

namespace hugectr::cuda {
namespace {

struct NoState {};

// Floor: reads x (and the mask), writes y.
template <class T, class Cut, bool kMasked>
struct SoftmaxForward {
  using Element = T;
  static constexpr int kTensors = kMasked ? 2 : 1;
  static constexpr bool kThroughShared = kMasked ? Cut::K == 1 : Cut::K > 1;  // as measured
  static constexpr int kBlocks = 1;
  Rows<const T> x, mask;
  Rows<T> y;
  SoftmaxMaskRows mask_rows;
  unsigned n;

  __device__ NoState start(int) const { return {}; }
  __device__ const T* from(int tensor, std::size_t row) const {
    return tensor == 0 ? x.at(row, 0) : mask.at(mask_rows(row), 0);
  }
  __device__ void operator()(const LaneOfRows<SoftmaxForward, Cut>& loaded, std::size_t row,
                             bool there, int lane, NoState) const {
    const auto values = lane_values<Cut>(lane, n, [&](int i, unsigned) {
      auto pack = loaded.of[0][i];
      if constexpr (kMasked) {
        const auto masks = loaded.of[1][i];
#pragma unroll
        for (int k = 0; k < Cut::V; ++k) pack.v[k] = softmax_masked(pack.v[k], masks.v[k]);
      }
      return pack;
    });
    float most = -INFINITY;
    for_each_pack<Cut>(lane, n, [&](int i, unsigned column) {
      const auto pack = values(i, column);
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        if (Cut::in_row(column, k, n)) most = fmaxf(most, pack.v[k]);
      }
    });
    most = group_max<Cut::W>(most);
    const auto powers = lane_values<Cut>(lane, n, [&](int i, unsigned column) {
      auto pack = values(i, column);
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) pack.v[k] = exp_of(pack.v[k] - most);
      return pack;
    });
    float sum = 0.0f;
    for_each_pack<Cut>(lane, n, [&](int i, unsigned column) {
      const auto pack = powers(i, column);
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        if (Cut::in_row(column, k, n)) sum += pack.v[k];
      }
    });
    const float scale = 1.0f / group_sum<Cut::W>(sum);
    if (!there) return;
    for_each_pack<Cut>(lane, n, [&](int i, unsigned column) {
      auto pack = powers(i, column);
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) pack.v[k] *= scale;
      store_lane_pack<Cut>(y.at(row, 0), column, n, pack);
    });
  }
};

// Floor: reads y and dy, writes dx.
template <class T, class Cut>
struct SoftmaxBackward {
  using Element = T;
  static constexpr int kTensors = 2;
  static constexpr bool kThroughShared = false;
  static constexpr int kBlocks = 1;
  Rows<const T> y, dy;
  Rows<T> dx;
  unsigned n;

  __device__ NoState start(int) const { return {}; }
  __device__ const T* from(int tensor, std::size_t row) const {
    return tensor == 0 ? y.at(row, 0) : dy.at(row, 0);
  }
  __device__ void operator()(const LaneOfRows<SoftmaxBackward, Cut>& loaded, std::size_t row,
                             bool there, int lane, NoState) const {
    float dot = 0.0f;
    for_each_pack<Cut>(lane, n, [&](int i, unsigned) {
      const auto v = loaded.of[0][i], g = loaded.of[1][i];
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) dot += v.v[k] * g.v[k];
    });
    dot = group_sum<Cut::W>(dot);
    if (!there) return;
    for_each_pack<Cut>(lane, n, [&](int i, unsigned column) {
      const auto v = loaded.of[0][i];
      auto g = loaded.of[1][i];
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) g.v[k] = v.v[k] * (g.v[k] - dot);
      store_lane_pack<Cut>(dx.at(row, 0), column, n, g);
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
                                                     rows_of<T>(y), op.mask_rows(),
                                                     static_cast<unsigned>(x.row_size())};
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
                                           rows_of<T>(dx), static_cast<unsigned>(y.row_size())};
        for_each_held_row<Cut>(ctx, SoftmaxBwd::kName, y.rows(), body);
      },
      y, dy, dx);
}

const OpRegistration<SoftmaxFwd> softmax_fwd_cuda{DeviceType::Cuda, &softmax_fwd_kernel};
const OpRegistration<SoftmaxBwd> softmax_bwd_cuda{DeviceType::Cuda, &softmax_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
