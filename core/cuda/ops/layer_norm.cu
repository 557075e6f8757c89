// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/layer_norm.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cuda/primitives/held_rows.cuh"

namespace hugectr::cuda {
namespace {

struct RowMoments {
  float mean, inv_deviation;
  __device__ float hat(float x) const { return (x - mean) * inv_deviation; }
};

// The deviations are squared in a second pass over the registers: a large mean costs no digits.
template <class Cut, class T>
__device__ RowMoments moments(const LaneOfRow<T, Cut>& x, int lane, std::size_t n, float eps) {
  float sum = 0.0f, squares = 0.0f;
  for_each_pack<Cut>(lane, n, [&](int i, std::size_t) {
    const auto values = x[i];
#pragma unroll
    for (int k = 0; k < Cut::V; ++k) sum += values.v[k];
  });
  const float mean = group_sum<Cut::W>(sum) / static_cast<float>(n);
  for_each_pack<Cut>(lane, n, [&](int i, std::size_t column) {
    const auto values = x[i];
#pragma unroll
    for (int k = 0; k < Cut::V; ++k) {
      const float distance = column + k < n ? values.v[k] - mean : 0.0f;
      squares = fmaf(distance, distance, squares);
    }
  });
  const float var = group_sum<Cut::W>(squares) / static_cast<float>(n);
  return {mean, rsqrtf(var + eps)};
}

// Floor: reads x, writes y.
template <class T, class Cut>
struct LayerNormForward {
  struct Columns {
    LaneColumns<Cut> gamma, beta;
  };
  Rows<const T> x;
  Rows<T> y;
  const float *gamma, *beta;
  std::size_t n;
  float eps;

  __device__ Columns columns(int lane) const {
    return {LaneColumns<Cut>(gamma, lane, n), LaneColumns<Cut>(beta, lane, n)};
  }
  __device__ void operator()(std::size_t row, bool there, int lane, const Columns& columns) const {
    const LaneOfRow<T, Cut> values(x.at(there ? row : 0, 0), there, lane, n);
    const RowMoments norm = moments<Cut>(values, lane, n, eps);
    if (!there) return;
    for_each_pack<Cut>(lane, n, [&](int i, std::size_t column) {
      auto pack = values[i];
      const auto scale = columns.gamma(i, column), shift = columns.beta(i, column);
#pragma unroll
      for (int k = 0; k < Cut::V; ++k) {
        pack.v[k] = fmaf(scale.v[k], norm.hat(pack.v[k]), shift.v[k]);
      }
      store_lane_pack<Cut::V>(y.at(row, 0), column, n, pack);
    });
  }
};

template <class T>
struct LayerNormBackward {
  Rows<const T> x, dy;
  Rows<T> dx;  // no data: not computed
  const float* gamma;
  std::size_t rows, n, piece;
  float eps;
  float* partial;  // (pieces, 2 n): sums of dy h, then of dy
};

// A lane's sums of dy h and dy over the rows of its group: in registers, or where rows are not
// held in the piece's row of scratch, which then is this lane's alone.
template <class Cut>
struct LaneSums {
  float held[2][Cut::kHeld ? Cut::K : 1][Cut::V];
  float* row;
  std::size_t n;

  __device__ LaneSums(float* row, int lane, std::size_t n) : row(row), n(n) {
    if constexpr (Cut::kHeld) {
#pragma unroll
      for (int i = 0; i < Cut::K; ++i) {
#pragma unroll
        for (int k = 0; k < Cut::V; ++k) held[0][i][k] = held[1][i][k] = 0.0f;
      }
    } else {
      for_each_pack<Cut>(lane, n, [&](int, std::size_t column) {
        for (int k = 0; k < Cut::V && column + k < n; ++k)
          row[column + k] = row[n + column + k] = 0;
      });
    }
  }
  __device__ void add(int i, int k, std::size_t column, float gradient, float hat) {
    if constexpr (Cut::kHeld) {
      held[0][i][k] = fmaf(gradient, hat, held[0][i][k]);
      held[1][i][k] += gradient;
    } else if (column + k < n) {
      row[column + k] = fmaf(gradient, hat, row[column + k]);
      row[n + column + k] += gradient;
    }
  }
};

template <class Cut, class T>
__device__ void backward_of_row(const LayerNormBackward<T>& op, std::size_t row, bool there,
                                int lane, const LaneColumns<Cut>& gamma, LaneSums<Cut>& sums) {
  const std::size_t safe = there ? row : 0;
  const LaneOfRow<T, Cut> values(op.x.at(safe, 0), there, lane, op.n);
  const LaneOfRow<T, Cut> gradients(op.dy.at(safe, 0), there, lane, op.n);
  const RowMoments norm = moments<Cut>(values, lane, op.n, op.eps);
  float sum = 0.0f, sum_hat = 0.0f;
  for_each_pack<Cut>(lane, op.n, [&](int i, std::size_t column) {
    const auto x = values[i], dy = gradients[i], scale = gamma(i, column);
#pragma unroll
    for (int k = 0; k < Cut::V; ++k) {
      const float hat = norm.hat(x.v[k]), g = scale.v[k] * dy.v[k];
      sum += g;
      sum_hat = fmaf(g, hat, sum_hat);
      sums.add(i, k, column, dy.v[k], hat);
    }
  });
  if (op.dx.data == nullptr) return;  // the same for all threads
  const float mean = group_sum<Cut::W>(sum) / static_cast<float>(op.n);
  const float mean_hat = group_sum<Cut::W>(sum_hat) / static_cast<float>(op.n);
  if (!there) return;
  for_each_pack<Cut>(lane, op.n, [&](int i, std::size_t column) {
    const auto x = values[i], scale = gamma(i, column);
    auto dx = gradients[i];
#pragma unroll
    for (int k = 0; k < Cut::V; ++k) {
      dx.v[k] = norm.inv_deviation * (scale.v[k] * dx.v[k] - mean - norm.hat(x.v[k]) * mean_hat);
    }
    store_lane_pack<Cut::V>(op.dx.at(row, 0), column, op.n, dx);
  });
}

// The sums of all groups of the block into the piece's row of scratch: groups of a warp by
// shuffles, then warp after warp. In shared memory neighbouring lanes lie side by side.
template <class Cut>
__device__ void store_block_sums(const LaneSums<Cut>& sums, int lane, std::size_t n, float* to) {
  __shared__ float total[2][Cut::W * Cut::K * Cut::V];
  const unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (unsigned turn = 0; turn < warps; ++turn) {
#pragma unroll
    for (int what = 0; what < 2; ++what) {
#pragma unroll
      for (int i = 0; i < Cut::K; ++i) {
#pragma unroll
        for (int k = 0; k < Cut::V; ++k) {
          if (warp != turn) continue;
          float value = sums.held[what][i][k];
#pragma unroll
          for (int step = Cut::W; step < 32; step *= 2) {
            value += __shfl_xor_sync(0xFFFFFFFFu, value, step);
          }
          float& target = total[what][(i * Cut::V + k) * Cut::W + lane];
          if (threadIdx.x % 32 < Cut::W) target = turn == 0 ? value : target + value;
        }
      }
    }
    __syncthreads();
  }
  for (std::size_t j = threadIdx.x; j < n; j += blockDim.x) {
    const std::size_t pack = j / Cut::V;  // lane by lane, then K packs of each
    const std::size_t at = (pack / Cut::W * Cut::V + j % Cut::V) * Cut::W + pack % Cut::W;
    to[j] = total[0][at];
    to[n + j] = total[1][at];
  }
}

// One piece of the rows a block. Floor: reads x and dy, writes dx.
template <class Cut, class T>
__global__ void __launch_bounds__(kHeldThreads) layer_norm_bwd_kernel_of(LayerNormBackward<T> op) {
  const unsigned groups = blockDim.x / Cut::W;
  const int lane = static_cast<int>(threadIdx.x) % Cut::W;
  const std::size_t begin = blockIdx.x * op.piece;
  const std::size_t end = begin + op.piece < op.rows ? begin + op.piece : op.rows;
  float* const to = op.partial + blockIdx.x * 2 * op.n;
  const LaneColumns<Cut> gamma(op.gamma, lane, op.n);
  LaneSums<Cut> sums(to, lane, op.n);
  // The bound is that of the block, so that whole warps reach the shuffles.
  for (std::size_t first = begin; first < end; first += groups) {
    const std::size_t row = first + threadIdx.x / Cut::W;
    backward_of_row<Cut>(op, row, row < end, lane, gamma, sums);
  }
  if constexpr (Cut::kHeld) store_block_sums<Cut>(sums, lane, op.n, to);
}

constexpr unsigned kPieceThreads = 32;

// Column by column the sum over many pieces: thread y takes every 32nd, then they are added in
// order.
__global__ void __launch_bounds__(32 * kPieceThreads)
    sum_pieces_kernel(const float* partial, std::size_t pieces, std::size_t n, float* dgamma,
                      float* dbeta) {
  __shared__ double sums[kPieceThreads][33];
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * 32 + threadIdx.x;
  double sum = 0.0;
  if (column < 2 * n) {
#pragma unroll 8
    for (std::size_t piece = threadIdx.y; piece < pieces; piece += kPieceThreads) {
      sum += static_cast<double>(partial[piece * 2 * n + column]);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= 2 * n) return;
  for (unsigned y = 1; y < kPieceThreads; ++y) sum += sums[y][threadIdx.x];
  float& target = column < n ? dgamma[column] : dbeta[column - n];
  target = static_cast<float>(static_cast<double>(target) + sum);
}

void layer_norm_fwd_kernel(const OpContext& ctx, const LayerNormFwd& op) {
  const TensorRef x = last_axis_rows(op.x), y = last_axis_rows(op.y);
  with_row_cut(
      [&]<class T, class Cut>(T, Cut) {
        const LayerNormForward<T, Cut> body{rows_of<const T>(x),   rows_of<T>(y),
                                            op.gamma.ptr<float>(), op.beta.ptr<float>(),
                                            x.row_size(),          static_cast<float>(op.eps)};
        for_each_held_row<Cut>(ctx, LayerNormFwd::kName, x.rows(), body);
      },
      x, y);
}

void layer_norm_bwd_kernel(const OpContext& ctx, const LayerNormBwd& op) {
  const TensorRef x = last_axis_rows(op.x), dy = last_axis_rows(op.dy);
  const TensorRef dx = last_axis_rows(op.dx);
  const std::size_t n = x.row_size(), pieces = op.partial.rows();
  with_row_cut(
      [&]<class T, class Cut>(T, Cut) {
        const LayerNormBackward<T> body{rows_of<const T>(x),
                                        rows_of<const T>(dy),
                                        rows_of<T>(dx),
                                        op.gamma.ptr<float>(),
                                        x.rows(),
                                        n,
                                        layer_norm_piece(x.rows()),
                                        static_cast<float>(op.eps),
                                        op.partial.ptr<float>()};
        launch(ctx, LayerNormBwd::kName, dim3(static_cast<unsigned>(pieces)),
               dim3(Cut::kHeld ? kHeldThreads : Cut::W), 0, &layer_norm_bwd_kernel_of<Cut, T>,
               body);
      },
      x, dy, dx);
  launch(ctx, "layer_norm_bwd sums", dim3(static_cast<unsigned>((2 * n + 31) / 32)),
         dim3(32, kPieceThreads), 0, &sum_pieces_kernel, op.partial.ptr<float>(), pieces, n,
         op.dgamma.ptr<float>(), op.dbeta.ptr<float>());
}

const OpRegistration<LayerNormFwd> layer_norm_fwd_cuda{DeviceType::Cuda, &layer_norm_fwd_kernel};
const OpRegistration<LayerNormBwd> layer_norm_bwd_cuda{DeviceType::Cuda, &layer_norm_bwd_kernel};

}  // namespace
}  // namespace hugectr::cuda
