// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cuda/ops/cross_weights.cuh"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/real.cuh"

/// The backward of MultiCross for any number of columns and layers and any stride: several passes,
/// an element at a time. cross_backward.cuh is the way of the shapes that networks have.
namespace hugectr {
namespace {

/// Of every sample: c_L, a_{l+1} and a_{l+1} c_l.
struct CrossScalars {
  float *c, *a, *ac;
  unsigned layers;
};

template <class T>
struct GradientDot {  // a_L = dy . x
  cuda::Rows<const T> x, dy;
  __device__ float operator()(std::size_t row, std::size_t j) const {
    return cuda::widen(*x.at(row, j)) * cuda::widen(*dy.at(row, j));
  }
};

struct MakeScalars {
  CrossScalars of;
  const float *dots, *offset;
  __device__ void operator()(std::size_t row, float a) const {
    float c = 1.0f;
    for (unsigned l = 0; l < of.layers; ++l) {
      of.ac[row * of.layers + l] = c;
      c = cross_scale_next(c, dots_of(row)[l], offset[l]);
    }
    of.c[row] = c;
    for (unsigned l = of.layers; l-- > 0;) {
      of.ac[row * of.layers + l] *= a;
      of.a[row * of.layers + l] = a;
      a += a * dots_of(row)[l];
    }
  }
  __device__ const float* dots_of(std::size_t row) const { return dots + row * of.layers; }
};

template <class T>
struct InputGradient {
  cuda::Rows<const T> dy;
  cuda::Rows<T> dx;
  CrossScalars of;
  CrossTable<1> table;

  __device__ int columns(std::size_t) const { return 0; }
  __device__ void operator()(std::size_t row, std::size_t j, int) const {
    float sum = of.c[row] * cuda::widen(*dy.at(row, j));
    for (unsigned l = 0; l < of.layers; ++l) {
      sum += of.ac[row * of.layers + l] * table.w.at(l, static_cast<unsigned>(j));
    }
    *dx.at(row, j) = cuda::narrow<T>(sum);
  }
};

/// A column of the partial sums: of a_{l+1} c_l x, of dy, or of a_{l+1}.
template <class T>
struct PartialColumn {
  using Sum = float;
  static constexpr int kSums = 1;
  using Row = float;
  struct Place {
    std::size_t layer, column;
  };
  cuda::Rows<const T> x, dy;
  CrossScalars of;
  float* partial;
  std::size_t n, stride;

  __device__ Place columns(std::size_t group) const { return {group / n, group % n}; }
  __device__ float load(std::size_t row, std::size_t group) const {
    const Place at = columns(group);
    if (at.layer < of.layers) {
      return of.ac[row * of.layers + at.layer] * cuda::widen(*x.at(row, at.column));
    }
    if (at.layer == of.layers) return cuda::widen(*dy.at(row, at.column));
    return of.a[row * of.layers + group - (of.layers + 1) * n];
  }
  __device__ void add(float value, std::size_t, std::size_t, const Place&, float* sums) const {
    sums[0] += value;
  }
  __device__ void store(std::size_t piece, std::size_t group, const float* sums) const {
    partial[piece * stride + group] = sums[0];
  }
};

template <class T>
void run_any_backward(const OpContext& ctx, const MultiCrossBwd& op) {
  const char* name = MultiCrossBwd::kName;
  const std::size_t rows = op.x.rows(), n = op.x.shape[1], layers = op.ws.size();
  const CrossWeights weights = cross_weights(op.ws, op.bs);
  cuda::FloatScratch scratch(
      ctx, {CrossTable<1>::floats(layers, n), rows, rows * layers, rows * layers});
  const CrossTable<1> table = table_in_scratch(ctx, name, weights, scratch);
  const CrossScalars scalars{scratch.take(rows), scratch.take(rows * layers),
                             scratch.take(rows * layers), weights.layers};
  const auto x = cuda::rows_of<const T>(op.x), dy = cuda::rows_of<const T>(op.dy);
  cuda::sum_each(ctx, name, rows, n, GradientDot<T>{x, dy},
                 MakeScalars{scalars, op.dots.ptr<float>(), table.offset});
  if (!op.dx.empty()) {
    cuda::for_each_row(ctx, name, rows, n,
                       InputGradient<T>{dy, cuda::rows_of<T>(op.dx), scalars, table});
  }
  const std::size_t columns = op.partial.row_size();
  cuda::sum_tiles(ctx, name, rows, columns,
                  PartialColumn<T>{x, dy, scalars, op.partial.ptr<float>(), n, columns},
                  {.piece = cross_samples_per_piece(rows)});
}

}  // namespace
}  // namespace hugectr
