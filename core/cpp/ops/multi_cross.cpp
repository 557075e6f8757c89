// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/multi_cross.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/lanes.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_weights(const char* op, const char* name, const std::vector<TensorRef>& weights,
                   std::size_t layers, std::size_t n) {
  HCTR_CHECK(weights.size() == layers, op, ": ", weights.size(), " ", name, ", must be ", layers);
  for (const TensorRef& w : weights) check_packed_float(op, name, w, {n});
}

void check_shapes(const char* op, const TensorRef& x, const std::vector<TensorRef>& ws,
                  const std::vector<TensorRef>& bs, const TensorRef& dots) {
  check_real(op, "x", x);
  HCTR_CHECK(x.shape.size() == 2, op, ": x has shape ", to_string(x.shape),
             ", must be (batch, columns)");
  HCTR_CHECK(!ws.empty() && ws.size() <= kMostCrossLayers, op, ": ", ws.size(),
             " ws, must be 1 to ", kMostCrossLayers);
  check_weights(op, "ws", ws, ws.size(), x.shape[1]);
  check_weights(op, "bs", bs, ws.size(), x.shape[1]);
  check_packed_float(op, "dots", dots, {x.shape[0], ws.size()});
}

}  // namespace

void MultiCrossFwd::check() const {
  check_shapes(kName, x, ws, bs, dots);
  check_real(kName, "y", y, x.dtype, x.shape);
}

void MultiCrossBwd::check() const {
  check_shapes(kName, x, ws, bs, dots);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  if (!dx.empty()) check_real(kName, "dx", dx, x.dtype, x.shape);
  const std::size_t layers = ws.size(), n = x.shape[1];
  check_weights(kName, "dws", dws, layers, n);
  check_weights(kName, "dbs", dbs, layers, n);
  check_packed_float(kName, "partial", partial,
                     {cross_pieces(x.rows()), (layers + 1) * n + layers});
}

namespace {

constexpr std::size_t kRows = 4;     // samples in a register block
constexpr std::size_t kWeights = 2;  // weight vectors in a register block of dot products

/// What is the same for every sample.
struct Shared {
  Shared(const std::vector<TensorRef>& ws, const std::vector<TensorRef>& bs)
      : layers(ws.size()), n(ws[0].size()), bias((ws.size() + 1) * n, 0.0f) {
    for (std::size_t l = 0; l < layers; ++l) {
      const float* b = bs[l].ptr<float>();
      w.push_back(ws[l].ptr<float>());
      double dot = 0.0;
      for (std::size_t j = 0; j < n; ++j) {
        dot += static_cast<double>(bias[l * n + j]) * static_cast<double>(w[l][j]);
        bias[(l + 1) * n + j] = bias[l * n + j] + b[j];
      }
      offset.push_back(static_cast<float>(dot));
    }
  }
  std::size_t layers, n;
  std::vector<const float*> w;
  std::vector<float> bias;    ///< B_0 .. B_L, n each
  std::vector<float> offset;  ///< B_l . w_l
};

// out[r * stride + k] = x[r] . w[k] for Rows rows and Weights weight vectors.
template <std::size_t Rows, std::size_t Weights>
void dot_block(const float* const* x, const float* const* w, std::size_t n, float* out,
               std::size_t stride) {
  Lanes sum[Rows * Weights] = {};
  std::size_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    Lanes v[Weights];
    for (std::size_t k = 0; k < Weights; ++k) v[k] = load_lanes(w[k] + j);
    for (std::size_t r = 0; r < Rows; ++r) {
      const Lanes u = load_lanes(x[r] + j);
      for (std::size_t k = 0; k < Weights; ++k) sum[r * Weights + k] += u * v[k];
    }
  }
  float totals[Rows * Weights];
  if constexpr (Rows * Weights == kLanes) {
    store_lanes(totals, sum_each(sum));
  } else {
    for (std::size_t i = 0; i < Rows * Weights; ++i) totals[i] = sum_lanes(sum[i]);
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t k = 0; k < Weights; ++k) {
      float total = totals[r * Weights + k];
      for (std::size_t i = j; i < n; ++i) total += x[r][i] * w[k][i];
      out[r * stride + k] = total;
    }
  }
}

template <std::size_t Rows>
void dots_of_rows(const float* const* x, const Shared& shared, float* dots) {
  std::size_t l = 0;
  for (; l + kWeights <= shared.layers; l += kWeights) {
    dot_block<Rows, kWeights>(x, &shared.w[l], shared.n, dots + l, shared.layers);
  }
  for (; l < shared.layers; ++l) {
    dot_block<Rows, 1>(x, &shared.w[l], shared.n, dots + l, shared.layers);
  }
}

// dots and y of Rows samples that lie in the L1 cache from the first product on.
template <std::size_t Rows>
void forward_rows(const MultiCrossFwd& op, const Shared& shared, std::size_t row) {
  const float* x[Rows];
  for (std::size_t r = 0; r < Rows; ++r) x[r] = op.x.row<float>(row + r);
  float* dots = op.dots.row<float>(row);
  dots_of_rows<Rows>(x, shared, dots);
  const float* __restrict bias = &shared.bias[shared.layers * shared.n];
  for (std::size_t r = 0; r < Rows; ++r) {
    float c = 1.0f;
    for (std::size_t l = 0; l < shared.layers; ++l) {
      c = cross_scale_next(c, dots[r * shared.layers + l], shared.offset[l]);
    }
    float* __restrict y = op.y.row<float>(row + r);
    const float* __restrict x0 = x[r];
    for (std::size_t j = 0; j < shared.n; ++j) y[j] = c * x0[j] + bias[j];
  }
}

void multi_cross_fwd_kernel(const OpContext& ctx, const MultiCrossFwd& op) {
  const Shared shared(op.ws, op.bs);
  const std::size_t grain = std::max(kRows, row_grain(shared.n) / kRows * kRows);
  parallel_for(*ctx.pool, op.x.rows(), grain, [&](std::size_t begin, std::size_t end) {
    std::size_t row = begin;
    for (; row + kRows <= end; row += kRows) forward_rows<kRows>(op, shared, row);
    for (; row < end; ++row) forward_rows<1>(op, shared, row);
  });
}

// Scalars of one sample: c_L and, for every layer, a_{l+1} (added to sum_a) and a_{l+1} c_l.
float scalars(const Shared& shared, const float* dots, float a, float* ac, float* sum_a) {
  float c = 1.0f;
  for (std::size_t l = 0; l < shared.layers; ++l) {
    ac[l] = c;
    c = cross_scale_next(c, dots[l], shared.offset[l]);
  }
  for (std::size_t l = shared.layers; l-- > 0;) {
    ac[l] *= a;
    sum_a[l] += a;
    a += a * dots[l];
  }
  return c;
}

/// Sums of one piece of the batch: a row of `partial`.
struct Sums {
  float* dw;     ///< layers x n
  float* dy;     ///< n
  float* sum_a;  ///< layers
};

// Columns j .. j + Count * kLanes of dx and of the sums, for Rows samples.
template <std::size_t Rows, std::size_t Count>
void backward_columns(const Shared& shared, std::size_t j, const float* const* x,
                      const float* const* dy, float* const* dx, const float* c, const float* ac,
                      const Sums& sums) {
  Lanes t[Rows][Count];
  for (std::size_t k = 0; k < Count; ++k) {
    Lanes total = load_lanes(sums.dy + j + k * kLanes);
    for (std::size_t r = 0; r < Rows; ++r) {
      const Lanes g = load_lanes(dy[r] + j + k * kLanes);
      total += g;
      t[r][k] = broadcast(c[r]) * g;
    }
    store_lanes(sums.dy + j + k * kLanes, total);
  }
  if (dx[0] != nullptr) {
    for (std::size_t l = 0; l < shared.layers; ++l) {
      Lanes v[Count];
      for (std::size_t k = 0; k < Count; ++k) v[k] = load_lanes(shared.w[l] + j + k * kLanes);
      for (std::size_t r = 0; r < Rows; ++r) {
        const Lanes scale = broadcast(ac[r * shared.layers + l]);
        for (std::size_t k = 0; k < Count; ++k) t[r][k] += scale * v[k];
      }
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      for (std::size_t k = 0; k < Count; ++k) store_lanes(dx[r] + j + k * kLanes, t[r][k]);
    }
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t k = 0; k < Count; ++k) t[r][k] = load_lanes(x[r] + j + k * kLanes);
  }
  for (std::size_t l = 0; l < shared.layers; ++l) {
    Lanes v[Count];
    float* dw = sums.dw + l * shared.n + j;
    for (std::size_t k = 0; k < Count; ++k) v[k] = load_lanes(dw + k * kLanes);
    for (std::size_t r = 0; r < Rows; ++r) {
      const Lanes scale = broadcast(ac[r * shared.layers + l]);
      for (std::size_t k = 0; k < Count; ++k) v[k] += scale * t[r][k];
    }
    for (std::size_t k = 0; k < Count; ++k) store_lanes(dw + k * kLanes, v[k]);
  }
}

// The columns behind the last whole vector.
template <std::size_t Rows>
void backward_tail(const Shared& shared, std::size_t begin, const float* const* x,
                   const float* const* dy, float* const* dx, const float* c, const float* ac,
                   const Sums& sums) {
  for (std::size_t j = begin; j < shared.n; ++j) {
    for (std::size_t r = 0; r < Rows; ++r) {
      float total = c[r] * dy[r][j];
      sums.dy[j] += dy[r][j];
      for (std::size_t l = 0; l < shared.layers; ++l) {
        total += ac[r * shared.layers + l] * shared.w[l][j];
        sums.dw[l * shared.n + j] += ac[r * shared.layers + l] * x[r][j];
      }
      if (dx[r] != nullptr) dx[r][j] = total;
    }
  }
}

template <std::size_t Rows>
void backward_rows(const MultiCrossBwd& op, const Shared& shared, std::size_t row, float* ac,
                   const Sums& sums) {
  const float *x[Rows], *dy[Rows];
  float *dx[Rows], c[Rows];
  for (std::size_t r = 0; r < Rows; ++r) {
    x[r] = op.x.row<float>(row + r);
    dy[r] = op.dy.row<float>(row + r);
    dx[r] = op.dx.empty() ? nullptr : op.dx.row<float>(row + r);
    float a = 0.0f;
    dot_block<1, 1>(&dy[r], &x[r], shared.n, &a, 1);
    c[r] = scalars(shared, op.dots.row<float>(row + r), a, ac + r * shared.layers, sums.sum_a);
  }
  std::size_t j = 0;
  for (; j + 2 * kLanes <= shared.n; j += 2 * kLanes) {
    backward_columns<Rows, 2>(shared, j, x, dy, dx, c, ac, sums);
  }
  for (; j + kLanes <= shared.n; j += kLanes) {
    backward_columns<Rows, 1>(shared, j, x, dy, dx, c, ac, sums);
  }
  backward_tail<Rows>(shared, j, x, dy, dx, c, ac, sums);
}

void finish_weights(ThreadPool& pool, const MultiCrossBwd& op, const Shared& shared) {
  const std::size_t layers = shared.layers, n = shared.n;
  std::vector<float> sum_dy(n, 0.0f), sum_a(layers, 0.0f);
  add_partials(pool, op.partial, layers * n, n, sum_dy.data());
  add_partials(pool, op.partial, (layers + 1) * n, layers, sum_a.data());
  for (std::size_t l = layers; l-- > 0;) {
    float* __restrict dw = op.dws[l].ptr<float>();
    float* __restrict db = op.dbs[l].ptr<float>();
    add_partials(pool, op.partial, l * n, n, dw);
    // sum_dy grows by A_l w_l on the way down: db_l wants the layers above l only.
    for (std::size_t j = 0; j < n; ++j) {
      dw[j] += sum_a[l] * shared.bias[l * n + j];
      db[j] += sum_dy[j];
      sum_dy[j] += sum_a[l] * shared.w[l][j];
    }
  }
}

void multi_cross_bwd_kernel(const OpContext& ctx, const MultiCrossBwd& op) {
  const Shared shared(op.ws, op.bs);
  const std::size_t layers = shared.layers, n = shared.n;
  const std::size_t samples = cross_samples_per_piece(op.x.rows());
  parallel_for(*ctx.pool, op.x.rows(), samples, [&](std::size_t begin, std::size_t end) {
    float* partial = op.partial.row<float>(begin / samples);
    std::memset(partial, 0, op.partial.row_size() * sizeof(float));
    const Sums sums{partial, partial + layers * n, partial + (layers + 1) * n};
    std::vector<float> ac(kRows * layers);
    std::size_t row = begin;
    for (; row + kRows <= end; row += kRows) {
      backward_rows<kRows>(op, shared, row, ac.data(), sums);
    }
    for (; row < end; ++row) backward_rows<1>(op, shared, row, ac.data(), sums);
  });
  finish_weights(*ctx.pool, op, shared);
}

const OpRegistration<MultiCrossFwd> multi_cross_fwd_cpu{DeviceType::Cpu, &multi_cross_fwd_kernel};
const OpRegistration<MultiCrossBwd> multi_cross_bwd_cpu{DeviceType::Cpu, &multi_cross_bwd_kernel};

}  // namespace
}  // namespace hugectr
