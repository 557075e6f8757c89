// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/interaction.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/lanes.hpp"

namespace hugectr {
namespace {

void check_shapes(const char* op, const TensorRef& mlp, const TensorRef& emb, const char* y_name,
                  const TensorRef& y) {
  check_real(op, "mlp", mlp);
  check_real(op, "emb", emb, mlp.dtype, emb.shape);
  HCTR_CHECK(mlp.shape.size() == 2 && emb.shape.size() == 3 && emb.shape[0] == mlp.shape[0] &&
                 emb.shape[1] > 0 && emb.shape[2] == mlp.shape[1],
             op, ": mlp has shape ", to_string(mlp.shape), " and emb ", to_string(emb.shape),
             ", must be (batch, width) and (batch, slots, width)");
  check_real(op, y_name, y, mlp.dtype,
             {mlp.shape[0], interaction_width(emb.shape[1], mlp.shape[1])});
}

}  // namespace

void InteractionFwd::check() const { check_shapes(kName, mlp, emb, "y", y); }

void InteractionBwd::check() const {
  check_shapes(kName, mlp, emb, "dy", dy);
  if (!dmlp.empty()) check_real(kName, "dmlp", dmlp, mlp.dtype, mlp.shape);
  if (!demb.empty()) check_real(kName, "demb", demb, mlp.dtype, emb.shape);
}

namespace {

constexpr std::size_t kTile = 4;  // rows of X in a register block

std::size_t up_to_multiple(std::size_t n, std::size_t step) { return (n + step - 1) / step * step; }

/// The rows of X of one sample. They are read in place when their width is a multiple of the
/// vector length, else from a copy padded with zeros, so that kernels have no tail. Row numbers
/// are rounded up to whole tiles: the rows beyond T repeat the last one.
class SampleRows {
 public:
  SampleRows(std::size_t rows, std::size_t width)
      : rows_(rows),
        width_(width),
        padded_(up_to_multiple(width, kLanes)),
        at_(up_to_multiple(rows, kTile)) {
    if (padded_ != width_) copy_.assign(rows * padded_, 0.0f);
  }

  void load(const float* mlp, const float* emb) {
    for (std::size_t n = 0; n < rows_; ++n) {
      const float* row = n == 0 ? mlp : emb + (n - 1) * width_;
      if (padded_ != width_) {
        std::memcpy(&copy_[n * padded_], row, width_ * sizeof(float));
        row = &copy_[n * padded_];
      }
      at_[n] = row;
    }
    std::fill(at_.begin() + static_cast<std::ptrdiff_t>(rows_), at_.end(), at_[rows_ - 1]);
  }

  std::size_t rows() const { return rows_; }
  std::size_t width() const { return width_; }
  std::size_t padded_width() const { return padded_; }
  const float* const* data() const { return at_.data(); }
  const float* operator[](std::size_t n) const { return at_[n]; }

 private:
  std::size_t rows_, width_, padded_;
  std::vector<const float*> at_;
  std::vector<float> copy_;
};

// dots[i * 2 + j] = a[i] . b[j]: eight sums in registers, six loads for eight multiply-adds.
void dot_tile(const float* const* a, const float* const* b, std::size_t width, float* dots) {
  Lanes sum[8] = {};
  const float *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3], *b0 = b[0], *b1 = b[1];
  for (std::size_t j = 0; j < width; j += kLanes) {
    const Lanes x = load_lanes(b0 + j), y = load_lanes(b1 + j);
    const Lanes p = load_lanes(a0 + j), q = load_lanes(a1 + j);
    sum[0] += p * x;
    sum[1] += p * y;
    sum[2] += q * x;
    sum[3] += q * y;
    const Lanes r = load_lanes(a2 + j), s = load_lanes(a3 + j);
    sum[4] += r * x;
    sum[5] += r * y;
    sum[6] += s * x;
    sum[7] += s * y;
  }
  store_lanes(dots, sum_each(sum));
}

// The six dots of four rows among themselves: (1,0) (2,0) (2,1) (3,0) (3,1) (3,2).
void diagonal_tile(const float* const* a, std::size_t width, float* dots) {
  Lanes sum[8] = {};
  const float *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3];
  for (std::size_t j = 0; j < width; j += kLanes) {
    const Lanes p = load_lanes(a0 + j), q = load_lanes(a1 + j);
    const Lanes r = load_lanes(a2 + j), s = load_lanes(a3 + j);
    sum[0] += q * p;
    sum[1] += r * p;
    sum[2] += r * q;
    sum[3] += s * p;
    sum[4] += s * q;
    sum[5] += s * r;
  }
  store_lanes(dots, sum_each(sum));
}

void forward_sample(const SampleRows& x, float* y) {
  const std::size_t rows = x.rows(), width = x.padded_width();
  float* pairs = y + x.width();
  float dots[8];
  std::memcpy(y, x[0], x.width() * sizeof(float));
  for (std::size_t n0 = 0; n0 < rows; n0 += kTile) {
    const std::size_t count = std::min(kTile, rows - n0);
    for (std::size_t m = 0; m < n0; m += 2) {
      dot_tile(x.data() + n0, x.data() + m, width, dots);
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(pairs + interaction_pair(n0 + i, m), dots + 2 * i, 2 * sizeof(float));
      }
    }
    diagonal_tile(x.data() + n0, width, dots);
    for (std::size_t i = 1; i < count; ++i) {
      std::memcpy(pairs + interaction_pair(n0 + i, n0), dots + interaction_pair(i, 0),
                  i * sizeof(float));
    }
  }
  pairs[rows * (rows - 1) / 2] = 0.0f;
}

// out[i] = sum over m of g[m][i] * x[m] for four rows i and Columns vectors of columns.
template <std::size_t Columns>
void product_tile(const float* const* x, std::size_t rows, std::size_t column, const float* g,
                  std::size_t g_stride, float* const* out) {
  Lanes sum[kTile][Columns] = {};
  for (std::size_t m = 0; m < rows; ++m, g += g_stride) {
    Lanes v[Columns];
    for (std::size_t c = 0; c < Columns; ++c) v[c] = load_lanes(x[m] + column + c * kLanes);
    for (std::size_t i = 0; i < kTile; ++i) {
      const Lanes scale = broadcast(g[i]);
      for (std::size_t c = 0; c < Columns; ++c) sum[i][c] += scale * v[c];
    }
  }
  for (std::size_t i = 0; i < kTile; ++i) {
    for (std::size_t c = 0; c < Columns; ++c) {
      store_lanes(out[i] + column + c * kLanes, sum[i][c]);
    }
  }
}

/// What the backward of a sample needs besides its rows.
struct BackwardScratch {
  BackwardScratch(std::size_t rows, std::size_t width)
      : stride(up_to_multiple(rows, kTile)),
        g(rows * stride),
        unused(kTile * up_to_multiple(width, kLanes)) {}
  std::size_t stride;
  std::vector<float> g;       ///< symmetric, zeros on the diagonal and beyond column T
  std::vector<float> unused;  ///< where rows go that nobody wants or that are not whole vectors
};

void load_pairs(const float* pairs, std::size_t rows, BackwardScratch& scratch) {
  for (std::size_t n = 1; n < rows; ++n) {
    for (std::size_t m = 0; m < n; ++m) {
      const float value = pairs[interaction_pair(n, m)];
      scratch.g[n * scratch.stride + m] = value;
      scratch.g[m * scratch.stride + n] = value;
    }
  }
}

// Null dmlp or demb: not wanted.
void backward_sample(const SampleRows& x, const float* dy, float* dmlp, float* demb,
                     BackwardScratch& scratch) {
  const std::size_t rows = x.rows(), width = x.width(), padded = x.padded_width();
  load_pairs(dy + width, rows, scratch);
  for (std::size_t n0 = 0; n0 < (demb == nullptr ? 1 : rows); n0 += kTile) {
    float *target[kTile], *out[kTile];
    for (std::size_t i = 0; i < kTile; ++i) {
      const std::size_t n = n0 + i;
      target[i] = n == 0 ? dmlp : demb == nullptr || n >= rows ? nullptr : demb + (n - 1) * width;
      out[i] = target[i] != nullptr && padded == width ? target[i] : &scratch.unused[i * padded];
    }
    std::size_t column = 0;
    for (; column + 2 * kLanes <= padded; column += 2 * kLanes) {
      product_tile<2>(x.data(), rows, column, &scratch.g[n0], scratch.stride, out);
    }
    if (column < padded) {
      product_tile<1>(x.data(), rows, column, &scratch.g[n0], scratch.stride, out);
    }
    if (padded == width) continue;
    for (std::size_t i = 0; i < kTile; ++i) {
      if (target[i] != nullptr) std::memcpy(target[i], out[i], width * sizeof(float));
    }
  }
  if (dmlp == nullptr) return;
  for (std::size_t j = 0; j < width; ++j) dmlp[j] += dy[j];
}

// Samples of one piece of the parallel loop: about a hundred thousand multiply-adds.
std::size_t sample_grain(const TensorRef& emb) {
  const std::size_t rows = emb.shape[1] + 1;
  return std::max<std::size_t>(1, 131072 / (rows * rows * emb.shape[2]));
}

void interaction_fwd_kernel(const OpContext& ctx, const InteractionFwd& op) {
  parallel_for(*ctx.pool, op.y.rows(), sample_grain(op.emb),
               [&](std::size_t begin, std::size_t end) {
                 SampleRows x(op.emb.shape[1] + 1, op.mlp.shape[1]);
                 for (std::size_t b = begin; b < end; ++b) {
                   x.load(op.mlp.row<float>(b), op.emb.row<float>(b));
                   forward_sample(x, op.y.row<float>(b));
                 }
               });
}

void interaction_bwd_kernel(const OpContext& ctx, const InteractionBwd& op) {
  parallel_for(
      *ctx.pool, op.dy.rows(), sample_grain(op.emb), [&](std::size_t begin, std::size_t end) {
        const std::size_t rows = op.emb.shape[1] + 1, width = op.mlp.shape[1];
        SampleRows x(rows, width);
        BackwardScratch scratch(rows, width);
        for (std::size_t b = begin; b < end; ++b) {
          x.load(op.mlp.row<float>(b), op.emb.row<float>(b));
          backward_sample(x, op.dy.row<float>(b), op.dmlp.empty() ? nullptr : op.dmlp.row<float>(b),
                          op.demb.empty() ? nullptr : op.demb.row<float>(b), scratch);
        }
      });
}

const OpRegistration<InteractionFwd> interaction_fwd_cpu{DeviceType::Cpu, &interaction_fwd_kernel};
const OpRegistration<InteractionBwd> interaction_bwd_cpu{DeviceType::Cpu, &interaction_bwd_kernel};

}  // namespace
}  // namespace hugectr
