// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gemm.hpp"

#include <cblas.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/cpp/device/blas_room.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_product.hpp"

namespace hugectr {
namespace {

// Pieces of this many rows or columns keep the BLAS near its peak; measured on 2 cores.
constexpr std::size_t kTileEdge = 512;
// Fewer pieces than this are cut further, so that a few cores share a product evenly ...
constexpr std::size_t kWantedTiles = 4;
// ... unless a piece would be done before another thread has woken up.
constexpr double kMinTileFlops = 2e6;
constexpr std::size_t kMinTileEdge = 64;
// Piece edges are multiples of the BLAS kernels' register blocks.
constexpr std::size_t kTileStep = 16;
// Elements of a matrix that one chunk of a matrix-vector product reads.
constexpr std::size_t kVectorChunk = std::size_t{1} << 16;
// And those that are worth another thread, where one of several waits for them awake.
constexpr std::size_t kVectorPart = std::size_t{1} << 15;

// The product on plain memory; strides are elements between stored rows.
struct FloatProduct {
  explicit FloatProduct(const GemmArgs& g)
      : transpose_a(g.transpose_a),
        transpose_b(g.transpose_b),
        m(g.m()),
        n(g.n()),
        k(g.k()),
        alpha(g.alpha),
        beta(g.beta),
        a(g.a.ptr()),
        b(g.b.ptr()),
        c(g.c.ptr()),
        a_stride(g.a.stride),
        b_stride(g.b.stride),
        c_stride(g.c.stride) {}

  bool transpose_a, transpose_b;
  std::size_t m, n, k;
  float alpha, beta;
  const float* a;
  const float* b;
  float* c;
  std::size_t a_stride, b_stride, c_stride;
};

// Whether row_product() computes it.
bool by_rows(const GemmArgs& g) {
  return g.rows_alike && !g.transpose_a && g.alpha == 1.0f && g.beta == 0.0f;
}

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// Length of the pieces when `n` is cut into `pieces` nearly equal ones.
std::size_t piece_length(std::size_t n, std::size_t pieces) {
  return divide_up(divide_up(n, pieces), kTileStep) * kTileStep;
}

struct Tiling {
  std::size_t rows, columns;  // of a piece
  std::size_t row_pieces, col_pieces;
};

std::size_t round_up(std::size_t n, std::size_t step) { return divide_up(n, step) * step; }

Tiling choose_tiling(std::size_t m, std::size_t n, std::size_t k, std::size_t row_step) {
  std::size_t row_pieces = divide_up(m, kTileEdge);
  std::size_t col_pieces = divide_up(n, kTileEdge);
  while (row_pieces * col_pieces < kWantedTiles) {
    const std::size_t rows = piece_length(m, row_pieces);
    const std::size_t columns = piece_length(n, col_pieces);
    const double flops =
        2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(k);
    if (flops < 2.0 * kMinTileFlops || std::max(rows, columns) < 2 * kMinTileEdge) break;
    (rows >= columns ? row_pieces : col_pieces) *= 2;
  }
  Tiling tiling{round_up(piece_length(m, row_pieces), row_step), piece_length(n, col_pieces), 0, 0};
  tiling.row_pieces = divide_up(m, tiling.rows);
  tiling.col_pieces = divide_up(n, tiling.columns);
  return tiling;
}

// Sum of x[i] y[i]; 32 running sums in fixed order, which the compiler keeps in four registers.
float dot(const float* __restrict x, const float* __restrict y, std::size_t n) {
  constexpr std::size_t kLanes = 32;
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  for (std::size_t lane = 0; i < n; ++i, ++lane) sums[lane] += x[i] * y[i];
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  }
  return sums[0];
}

// A matrix-vector product: out[i] = alpha * sum_p matrix(i, p) x[p] + beta * out[i].
struct MatrixVector {
  const float* matrix;
  std::size_t stride;
  bool transposed;  // matrix(i, p) lies at matrix[p * stride + i]
  std::size_t rows, depth;
  const float* x;  // contiguous
  float alpha, beta;
  float* out;
  std::size_t out_stride;

  void store(std::size_t i, float sum) const {
    float& target = out[i * out_stride];
    target = beta == 0.0f ? alpha * sum : alpha * sum + beta * target;
  }

  void rows_by_dot(std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) store(i, dot(matrix + i * stride, x, depth));
  }

  // Reads the stored rows one after the other; blocks of rows keep long sums accurate. Four rows at
  // a time: the sums, each in the order of the rows, go through memory a quarter as often.
  void rows_by_columns(std::size_t begin, std::size_t end) const {
    constexpr std::size_t kBlock = kProductDepth;
    const std::size_t n = end - begin;
    std::vector<float> block(n), total(n, 0.0f);
    float* __restrict sums = block.data();
    for (std::size_t p = 0; p < depth;) {
      std::fill(block.begin(), block.end(), 0.0f);
      const std::size_t stop = std::min(depth, p + kBlock);
      for (; p + 4 <= stop; p += 4) {
        const float* __restrict row0 = matrix + p * stride + begin;
        const float* __restrict row1 = row0 + stride, * __restrict row2 = row1 + stride, * __restrict row3 = row2 + stride;
        const float x0 = x[p], x1 = x[p + 1], x2 = x[p + 2], x3 = x[p + 3];
        for (std::size_t j = 0; j < n; ++j) {
          float sum = sums[j];
          sum += x0 * row0[j];
          sum += x1 * row1[j];
          sum += x2 * row2[j];
          sum += x3 * row3[j];
          sums[j] = sum;
        }
      }
      for (; p < stop; ++p) {
        const float* __restrict row = matrix + p * stride + begin;
        const float factor = x[p];
        for (std::size_t j = 0; j < n; ++j) sums[j] += factor * row[j];
      }
      for (std::size_t j = 0; j < end - begin; ++j) total[j] += sums[j];
    }
    for (std::size_t j = 0; j < end - begin; ++j) store(begin + j, total[j]);
  }

  std::size_t grain() const {
    // 128 columns are 8 cache lines: enough for the prefetcher, few enough to share out.
    return transposed ? 128
                      : std::max<std::size_t>(1, kVectorChunk / std::max<std::size_t>(depth, 1));
  }

  void run(std::size_t begin, std::size_t end) const {
    transposed ? rows_by_columns(begin, end) : rows_by_dot(begin, end);
  }
};

std::vector<float> gather(const float* data, std::size_t n, std::size_t stride) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = data[i * stride];
  return values;
}

void gemm_one_column(ThreadPool& pool, const FloatProduct& g, const GemmEpilogue& epilogue,
                     std::size_t row_step) {
  const std::vector<float> x = gather(g.b, g.k, g.transpose_b ? 1 : g.b_stride);
  const MatrixVector product{g.a,      g.a_stride, g.transpose_a, g.m, g.k,
                             x.data(), g.alpha,    g.beta,        g.c, g.c_stride};
  const std::size_t grain = round_up(product.grain(), row_step);
  parallel_for(pool, g.m, grain, [&](std::size_t begin, std::size_t end) {
    product.run(begin, end);
    if (epilogue) epilogue(begin, end, 0, 1);
  });
}

void gemm_one_row(ThreadPool& pool, const FloatProduct& g, const GemmEpilogue& epilogue) {
  const std::vector<float> x = gather(g.a, g.k, g.transpose_a ? g.a_stride : 1);
  const MatrixVector product{g.b,      g.b_stride, !g.transpose_b, g.n, g.k,
                             x.data(), g.alpha,    g.beta,         g.c, 1};
  // As few parts as there are threads: rows of b are read in a line, and a thread that has the same
  // part in every call finds it in its own cache. Where it is cut changes no sum.
  const std::size_t parts = std::clamp<std::size_t>(g.n * g.k / kVectorPart, 1, pool.size());
  const std::size_t grain = product.transposed ? piece_length(g.n, parts) : product.grain();
  parallel_for(pool, g.n, grain, [&](std::size_t begin, std::size_t end) {
    product.run(begin, end);
    if (epilogue) epilogue(0, 1, begin, end);
  });
}

// k == 1: every element of c is one product.
void gemm_outer(ThreadPool& pool, const FloatProduct& g, const GemmEpilogue& epilogue,
                std::size_t row_step) {
  const std::vector<float> y = gather(g.b, g.n, g.transpose_b ? g.b_stride : 1);
  const std::size_t x_stride = g.transpose_a ? 1 : g.a_stride;
  const std::size_t grain = round_up(std::max<std::size_t>(1, kVectorChunk / g.n), row_step);
  parallel_for(pool, g.m, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const float x = g.alpha * g.a[i * x_stride];
      const float* __restrict row = y.data();
      float* __restrict out = g.c + i * g.c_stride;
      if (g.beta == 0.0f) {
        for (std::size_t j = 0; j < g.n; ++j) out[j] = x * row[j];
      } else {
        for (std::size_t j = 0; j < g.n; ++j) out[j] = x * row[j] + g.beta * out[j];
      }
    }
    if (epilogue) epilogue(begin, end, 0, g.n);
  });
}

// One piece on the calling thread.
void gemm_serial(const FloatProduct& g) {
  // The pool owns the parallelism: the BLAS must not start threads of its own.
  [[maybe_unused]] static const bool one_thread = (scipy_openblas_set_num_threads(1), true);
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<blasint>::max());
  HCTR_CHECK(std::max({g.m, g.n, g.k, g.a_stride, g.b_stride, g.c_stride}) <= kMax,
             "gemm: a dimension or stride of (", g.m, ", ", g.n, ", ", g.k,
             ") does not fit into 32 bits");
  const auto as_int = [](std::size_t value) {
    return static_cast<blasint>(std::max<std::size_t>(value, 1));
  };
  if (g.m == 0 || g.n == 0) return;
  const BlasRoom room;
  scipy_cblas_sgemm(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans,
                    g.transpose_b ? CblasTrans : CblasNoTrans, static_cast<blasint>(g.m),
                    static_cast<blasint>(g.n), static_cast<blasint>(g.k), g.alpha, g.a,
                    as_int(g.a_stride), g.b, as_int(g.b_stride), g.beta, g.c, as_int(g.c_stride));
}

void gemm_piece(const FloatProduct& g, bool by_rows) {
  if (!by_rows) return gemm_serial(g);
  row_product({g.transpose_b, g.m, g.n, g.k, g.a, g.a_stride, g.b, g.b_stride, g.c, g.c_stride});
}

void gemm_kernel(const OpContext& context, const Gemm& op) {
  gemm(*context.pool, GemmArgs{.transpose_a = op.transpose_a,
                               .transpose_b = op.transpose_b,
                               .a = op.a,
                               .b = op.b,
                               .c = op.c,
                               .alpha = static_cast<float>(op.alpha),
                               .beta = static_cast<float>(op.beta),
                               .rows_alike = context.rows_alike});
}

const OpRegistration<Gemm> gemm_cpu{DeviceType::Cpu, &gemm_kernel};

}  // namespace

void Gemm::check() const {
  for (const TensorRef* t : {&a, &b, &c}) {
    HCTR_CHECK(t->shape.size() == 2, "gemm: a, b and c must have two dimensions, found ",
               to_string(t->shape));
  }
  check_real(kName, "a", a);
  check_real(kName, "b", b, a.dtype, b.shape);
  check_real(kName, "c", c, a.dtype, c.shape);
  const std::size_t m = a.shape[transpose_a ? 1 : 0];
  const std::size_t k = a.shape[transpose_a ? 0 : 1];
  const std::size_t n = b.shape[transpose_b ? 0 : 1];
  HCTR_CHECK(b.shape[transpose_b ? 1 : 0] == k && c.shape == (Shape{m, n}), "gemm: a ",
             to_string(a.shape), transpose_a ? "^T" : "", " times b ", to_string(b.shape),
             transpose_b ? "^T" : "", " does not give c ", to_string(c.shape));
}

void gemm_in_thread(const GemmArgs& args) { gemm_piece(FloatProduct(args), by_rows(args)); }

void gemm(ThreadPool& pool, const GemmArgs& args, const GemmEpilogue& epilogue,
          std::size_t row_step) {
  const FloatProduct g(args);
  if (g.m == 0 || g.n == 0) return;
  if (g.n == 1) return gemm_one_column(pool, g, epilogue, row_step);
  const bool rows = by_rows(args);
  // Of a b that is not transposed its sums are row_product()'s.
  if (g.m == 1 && !(rows && g.transpose_b)) return gemm_one_row(pool, g, epilogue);
  if (g.k == 1) return gemm_outer(pool, g, epilogue, row_step);
  const Tiling tiling = choose_tiling(g.m, g.n, g.k, row_step);
  parallel_for(pool, tiling.row_pieces * tiling.col_pieces, 1, [&](std::size_t tile, std::size_t) {
    const std::size_t row = tile / tiling.col_pieces * tiling.rows;
    const std::size_t column = tile % tiling.col_pieces * tiling.columns;
    FloatProduct part = g;
    part.m = std::min(tiling.rows, g.m - row);
    part.n = std::min(tiling.columns, g.n - column);
    part.a += g.transpose_a ? row : row * g.a_stride;
    part.b += g.transpose_b ? column * g.b_stride : column;
    part.c += row * g.c_stride + column;
    gemm_piece(part, rows);
    if (epilogue) epilogue(row, row + part.m, column, column + part.n);
  });
}

}  // namespace hugectr
