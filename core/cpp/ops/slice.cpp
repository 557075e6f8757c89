// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/slice.hpp"

#include <algorithm>
#include <cstring>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/axis_segments.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_ranges(const char* op, const char* name, const std::vector<TensorRef>& parts,
                  const TensorRef& whole, const std::vector<std::int64_t>& begins,
                  std::int64_t axis) {
  const std::size_t size = whole.shape[static_cast<std::size_t>(axis)];
  HCTR_CHECK(parts.size() == begins.size(), op, ": ", parts.size(), " ", name, " but ",
             begins.size(), " begins, must be one each");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    check_equal_but_axis(op, parts[i], whole, axis);
    check_real(op, name, parts[i], whole.dtype, parts[i].shape);
    const std::size_t width = parts[i].shape[static_cast<std::size_t>(axis)];
    HCTR_CHECK(begins[i] >= 0 && static_cast<std::size_t>(begins[i]) + width <= size, op,
               ": range ", i, " is [", begins[i], ", ",
               begins[i] + static_cast<std::int64_t>(width), "), must lie in [0, ", size, ")");
  }
}

}  // namespace

void SliceFwd::check() const {
  check_real(kName, "x", x);
  check_axis(kName, "x", x, axis);
  check_ranges(kName, "ys", ys, x, begins, axis);
}

void SliceBwd::check() const {
  check_real(kName, "dx", dx);
  check_axis(kName, "dx", dx, 1);
  check_ranges(kName, "dys", dys, dx, begins, 1);
}

namespace {

void slice_fwd_kernel(const OpContext& ctx, const SliceFwd& op) {
  const std::size_t outer = segments(op.x, op.axis);
  const std::size_t step = axis_step(op.x, op.axis);
  const std::size_t row_size = op.x.row_size();
  const std::size_t x_segment = row_size / outer;
  parallel_for(*ctx.pool, op.x.rows(), row_grain(row_size),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   const float* x = op.x.row<float>(row);
                   for (std::size_t i = 0; i < op.ys.size(); ++i) {
                     const std::size_t count = op.ys[i].row_size() / outer;
                     const float* from = x + static_cast<std::size_t>(op.begins[i]) * step;
                     float* y = op.ys[i].row<float>(row);
                     for (std::size_t s = 0; s < outer; ++s) {
                       std::memcpy(y + s * count, from + s * x_segment, count * sizeof(float));
                     }
                   }
                 }
               });
}

/// Columns [begin, end) of dx that the same dys cover.
struct Piece {
  std::size_t begin, end;
  struct Source {
    const TensorRef* dy;
    std::size_t column;  ///< of dy, where the piece starts
  };
  std::vector<Source> sources;
};

std::vector<Piece> pieces(const SliceBwd& op) {
  const std::size_t step = axis_step(op.dx, 1);
  std::vector<std::size_t> cuts{0, op.dx.row_size()};
  for (std::size_t i = 0; i < op.dys.size(); ++i) {
    cuts.push_back(static_cast<std::size_t>(op.begins[i]) * step);
    cuts.push_back(cuts.back() + op.dys[i].row_size());
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Piece> result;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    Piece piece{cuts[c], cuts[c + 1], {}};
    for (std::size_t i = 0; i < op.dys.size(); ++i) {
      const std::size_t first = static_cast<std::size_t>(op.begins[i]) * step;
      if (first <= piece.begin && piece.end <= first + op.dys[i].row_size()) {
        piece.sources.push_back({&op.dys[i], piece.begin - first});
      }
    }
    result.push_back(std::move(piece));
  }
  return result;
}

void sum_piece(const Piece& piece, std::size_t row, float* __restrict dx) {
  const std::size_t count = piece.end - piece.begin;
  const auto source = [&](std::size_t i) {
    return piece.sources[i].dy->row<float>(row) + piece.sources[i].column;
  };
  if (piece.sources.empty()) {
    std::memset(dx, 0, count * sizeof(float));
    return;
  }
  if (piece.sources.size() == 1) {
    std::memcpy(dx, source(0), count * sizeof(float));
    return;
  }
  const float* __restrict a = source(0);
  const float* __restrict b = source(1);
  for (std::size_t j = 0; j < count; ++j) dx[j] = a[j] + b[j];
  for (std::size_t i = 2; i < piece.sources.size(); ++i) {
    const float* __restrict c = source(i);
    for (std::size_t j = 0; j < count; ++j) dx[j] += c[j];
  }
}

void slice_bwd_kernel(const OpContext& ctx, const SliceBwd& op) {
  const std::vector<Piece> parts = pieces(op);
  parallel_for(*ctx.pool, op.dx.rows(), row_grain(op.dx.row_size()),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   float* dx = op.dx.row<float>(row);
                   for (const Piece& piece : parts) sum_piece(piece, row, dx + piece.begin);
                 }
               });
}

const OpRegistration<SliceFwd> slice_fwd_cpu{DeviceType::Cpu, &slice_fwd_kernel};
const OpRegistration<SliceBwd> slice_bwd_cpu{DeviceType::Cpu, &slice_bwd_kernel};

}  // namespace
}  // namespace hugectr
