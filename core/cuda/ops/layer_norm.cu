// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/layer_norm.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cuda/primitives/finish_pieces.cuh"
#include "core/cuda/primitives/held_rows.cuh"

namespace hugectr::cuda {
namespace {

// Division by the length of a row, rounded as a division is but for the last bit of a few, in three
// instructions.
struct RowMean {
  explicit RowMean(std::size_t n) : n(static_cast<float>(n)), inverse(1.0f / this->n) {}
  __device__ float operator()(float sum) const {
    const float mean = sum * inverse;
    return fmaf(fmaf(-mean, n, sum), inverse, mean);
  }
  float n, inverse;
};

// f(i, first column) for every pack that a lane has of a row; where it has one at most, behind the
// row's end too, where all numbers are 0: a pass whose packs are behind a condition can not use
// what an earlier one has computed, and computes it again.
template <class Cut, class F>
__device__ void pass(int lane, unsigned n, const F& f) {
  if constexpr (Cut::K == 1) {
    f(0, Cut::column(lane, 0));
  } else {
    for_each_pack<Cut>(lane, n, f);
  }
}

// A row about its mean, as one lane has it. The deviations are squared in a second pass over the
// registers: a large mean costs no digits. Those of a row that is not there are 0.
template <class T, class Cut>
class CenteredRow {
 public:
  __device__ CenteredRow(const LaneOfRow<T, Cut>& x, bool there, int lane, unsigned n,
                         const RowMean& mean_of, float eps)
      : x_(x) {
    float sum = 0.0f, squares = 0.0f;
    pass<Cut>(lane, n, [&](int i, unsigned) {
      const auto values = x[i];
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) sum += values.v[k];
    });
    mean_ = mean_of(group_sum<Cut::W>(sum));
    if (Cut::K == 1 && Cut::column(lane, 0) >= n) mean_ = 0.0f;
    pass<Cut>(lane, n, [&](int i, unsigned column) {
      const auto distances = (*this)[i];
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        const float distance = Cut::in_row(column, k, n) ? distances.v[k] : 0.0f;
        squares = fmaf(distance, distance, squares);
      }
    });
    const float var = mean_of(group_sum<Cut::W>(squares));
    inv_deviation = there ? rsqrtf(var + eps) : 0.0f;
  }
  /// x - mean of pack i; behind the row's end anything that is finite where the row is.
  __device__ Pack<float, Cut::V> operator[](int i) const {
    auto values = x_[i];
#pragma unroll
    for (int k = 0; k < Cut::V; ++k) values.v[k] -= mean_;
    return values;
  }
  float inv_deviation;

 private:
  const LaneOfRow<T, Cut>& x_;
  float mean_;
};

// Floor: reads x, writes y.
template <class T, class Cut>
struct LayerNormForward {
  struct State {
    LaneColumns<Cut> gamma, beta;
  };
  using Element = T;
  static constexpr int kTensors = 1;
  static constexpr bool kThroughShared = true;
  static constexpr int kBlocks = Cut::K == 1 ? 5 : 1;
  Rows<const T> x;
  Rows<T> y;
  const float *gamma, *beta;
  unsigned n;
  RowMean mean_of;
  float eps;

  __device__ State start(int lane) const {
    __shared__ ColumnTable<Cut> scales, shifts;
    scales.fill(gamma, n);
    shifts.fill(beta, n);
    __syncthreads();
    return {LaneColumns<Cut>(gamma, scales, lane, n), LaneColumns<Cut>(beta, shifts, lane, n)};
  }
  __device__ const T* from(int, std::size_t row) const { return x.at(row, 0); }
  __device__ void operator()(const LaneOfRows<LayerNormForward, Cut>& loaded, std::size_t row,
                             bool there, int lane, const State& state) const {
    const CenteredRow<T, Cut> centered(loaded.of[0], there, lane, n, mean_of, eps);
    if (!there) return;
    for_each_pack<Cut>(lane, n, [&](int i, unsigned column) {
      auto pack = centered[i];
      const auto scale = state.gamma(i, column), shift = state.beta(i, column);
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        pack.v[k] = fmaf(scale.v[k], pack.v[k] * centered.inv_deviation, shift.v[k]);
      }
      store_lane_pack<Cut>(y.at(row, 0), column, n, pack);
    });
  }
};

// A lane's sums of dy h and dy over the rows of its group: in registers, or where rows are not held
// in the block's row of scratch, which then is this lane's alone.
template <class Cut>
struct LaneSums {
  float held[2][Cut::kHeld ? Cut::K : 1][Cut::V];
  float* row;
  unsigned n;

  __device__ LaneSums(float* row, int lane, unsigned n) : row(row), n(n) {
    if constexpr (Cut::kHeld) {
#pragma unroll
      for (int i = 0; i < Cut::K; ++i) {
#pragma unroll
        for (int k = 0; k < Cut::V; ++k) held[0][i][k] = held[1][i][k] = 0.0f;
      }
    } else {
      for_each_pack<Cut>(lane, n, [&](int, unsigned column) {
        for (int k = 0; k < Cut::V && Cut::in_row(column, k, n); ++k) {
          row[column + k] = row[n + column + k] = 0;
        }
      });
    }
  }
  /// Adds product * factor to the sum of dy h, gradient to that of dy.
  __device__ void add(int i, int k, unsigned column, float product, float factor, float gradient) {
    if constexpr (Cut::kHeld) {
      held[0][i][k] = fmaf(product, factor, held[0][i][k]);
      held[1][i][k] += gradient;
    } else if (Cut::in_row(column, k, n)) {
      row[column + k] = fmaf(product, factor, row[column + k]);
      row[n + column + k] += gradient;
    }
  }
};

// The sums of all groups of the block into its row of scratch: groups of a warp by shuffles, then
// the warps, as many at a time as shared memory has room for. In there neighbouring lanes lie side
// by side.
template <class Cut>
__device__ void store_block_sums(LaneSums<Cut>& sums, int lane) {
  constexpr unsigned kColumns = Cut::W * Cut::K * Cut::V, kWarps = kHeldThreads / 32;
  constexpr unsigned kAtOnce = kColumns <= 256 ? kWarps : 1;
  __shared__ float total[kAtOnce][2][kColumns];
  const unsigned warp = threadIdx.x / 32, n = sums.n;
  const auto for_each_sum = [&](const auto& f) {
#pragma unroll
    for (int what = 0; what < 2; ++what) {
#pragma unroll
      for (int i = 0; i < Cut::K; ++i) {
#pragma unroll
        for (int k = 0; k < Cut::V; ++k) {
          f(sums.held[what][i][k], total[warp % kAtOnce][what][(i * Cut::V + k) * Cut::W + lane]);
        }
      }
    }
  };
  for_each_sum([](float& value, const float&) {
#pragma unroll
    for (int step = Cut::W; step < 32; step *= 2) {
      value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
    }
  });
  for (unsigned turn = 0; turn < kWarps; turn += kAtOnce) {
    if (warp / kAtOnce * kAtOnce == turn && threadIdx.x % 32 < Cut::W) {
      for_each_sum([&](float value, float& to) { to = turn == 0 ? value : to + value; });
    }
    __syncthreads();
  }
  for (unsigned j = threadIdx.x; j < 2 * n; j += blockDim.x) {
    const unsigned what = j < n ? 0 : 1, column = j - what * n;
    const unsigned pack = column / Cut::V;  // lane by lane, then K packs of each
    const unsigned at = (pack / Cut::W * Cut::V + column % Cut::V) * Cut::W + pack % Cut::W;
    float sum = total[0][what][at];
#pragma unroll
    for (unsigned w = 1; w < kAtOnce; ++w) sum += total[w][what][at];
    sums.row[j] = sum;
  }
}

// Floor: reads x and dy, writes dx.
template <class T, class Cut>
struct LayerNormBackward {
  using Element = T;
  static constexpr int kTensors = 2;
  static constexpr bool kThroughShared = true;
  // Their sums take many registers; with fewer blocks too little is under way.
  static constexpr int kBlocks = !HeldStages<T, Cut, kTensors>::kStaged ? 1 : Cut::K == 1 ? 4 : 2;
  struct State {
    LaneColumns<Cut> gamma;
    LaneSums<Cut> sums;
  };
  Rows<const T> x, dy;
  Rows<T> dx;  // no data: not computed
  const float* gamma;
  unsigned n;
  RowMean mean_of;
  float eps;
  float* partial;  // (blocks, 2 n): sums of dy h, then of dy

  __device__ State start(int lane) const {
    __shared__ ColumnTable<Cut> scales;
    scales.fill(gamma, n);
    __syncthreads();
    float* const row = partial + static_cast<std::size_t>(blockIdx.x) * 2 * n;
    return {LaneColumns<Cut>(gamma, scales, lane, n), LaneSums<Cut>(row, lane, n)};
  }
  __device__ const T* from(int tensor, std::size_t row) const {
    return tensor == 0 ? x.at(row, 0) : dy.at(row, 0);
  }
  __device__ void operator()(const LaneOfRows<LayerNormBackward, Cut>& loaded, std::size_t row,
                             bool there, int lane, State& state) const {
    const CenteredRow<T, Cut> centered(loaded.of[0], there, lane, n, mean_of, eps);
    const auto& of_dy = loaded.of[1];
    const float inv_deviation = centered.inv_deviation;
    float sum = 0.0f, sum_distance = 0.0f;  // of g, of g (x - mean)
    pass<Cut>(lane, n, [&](int i, unsigned column) {
      const auto distance = centered[i], gradients = of_dy[i], scale = state.gamma(i, column);
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        const float dy = gradients.v[k], product = dy * distance.v[k];
        sum = fmaf(scale.v[k], dy, sum);
        sum_distance = fmaf(scale.v[k], product, sum_distance);
        state.sums.add(i, k, column, product, inv_deviation, dy);
      }
    });
    if (dx.data == nullptr) return;  // the same for all threads
    const float mean = mean_of(group_sum<Cut::W>(sum));
    const float mean_hat = mean_of(group_sum<Cut::W>(sum_distance)) * inv_deviation;
    if (!there) return;
    // (g - mean - h mean_hat) / deviation
    const float shift = -mean * inv_deviation, slope = -mean_hat * inv_deviation * inv_deviation;
    for_each_pack<Cut>(lane, n, [&](int i, unsigned column) {
      const auto distance = centered[i], scale = state.gamma(i, column);
      auto result = of_dy[i];
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        const float g = scale.v[k] * result.v[k];
        result.v[k] = fmaf(distance.v[k], slope, fmaf(g, inv_deviation, shift));
      }
      store_lane_pack<Cut>(dx.at(row, 0), column, n, result);
    });
  }
  __device__ void finish(State& state, int lane) const {
    if constexpr (Cut::kHeld) store_block_sums<Cut>(state.sums, lane);
  }
};

struct AddToGradients {
  float *dgamma, *dbeta;
  std::size_t n;
  __device__ void operator()(std::size_t column, double sum) const {
    float& target = column < n ? dgamma[column] : dbeta[column - n];
    target = static_cast<float>(static_cast<double>(target) + sum);
  }
};

void layer_norm_fwd_kernel(const OpContext& ctx, const LayerNormFwd& op) {
  const TensorRef x = last_axis_rows(op.x), y = last_axis_rows(op.y);
  with_row_cut(
      [&]<class T, class Cut>(T, Cut) {
        const LayerNormForward<T, Cut> body{rows_of<const T>(x),
                                            rows_of<T>(y),
                                            op.gamma.ptr<float>(),
                                            op.beta.ptr<float>(),
                                            static_cast<unsigned>(x.row_size()),
                                            RowMean(x.row_size()),
                                            static_cast<float>(op.eps)};
        for_each_held_row<Cut>(ctx, LayerNormFwd::kName, x.rows(), body);
      },
      x, y);
}

// As many pieces as blocks run at once: all of them begin and end together.
void layer_norm_bwd_kernel(const OpContext& ctx, const LayerNormBwd& op) {
  const TensorRef x = last_axis_rows(op.x), dy = last_axis_rows(op.dy);
  const TensorRef dx = last_axis_rows(op.dx);
  const std::size_t n = x.row_size();
  float* const partial = op.partial.ptr<float>();
  unsigned pieces = 0;
  with_row_cut(
      [&]<class T, class Cut>(T, Cut) {
        const LayerNormBackward<T, Cut> body{rows_of<const T>(x),
                                             rows_of<const T>(dy),
                                             rows_of<T>(dx),
                                             op.gamma.ptr<float>(),
                                             static_cast<unsigned>(n),
                                             RowMean(n),
                                             static_cast<float>(op.eps),
                                             partial};
        pieces = for_each_held_row<Cut>(ctx, LayerNormBwd::kName, x.rows(), body,
                                        Cut::kHeld ? kHeldThreads : Cut::W, op.partial.rows());
      },
      x, dy, dx);
  finish_pieces(ctx, "layer_norm_bwd sums", partial, pieces, 2 * n,
                AddToGradients{op.dgamma.ptr<float>(), op.dbeta.ptr<float>(), n});
}

const OpRegistration<LayerNormFwd> layer_norm_fwd_cuda{DeviceType::Cuda, &layer_norm_fwd_kernel};
const OpRegistration<LayerNormBwd> layer_norm_bwd_cuda{DeviceType::Cuda, &layer_norm_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
