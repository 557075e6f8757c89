// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/loops/matrix.hpp"
#include "core/cuda/device/cublas_lt.hpp"
#include "core/cuda/ops/linear_one_output.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/float_scratch.hpp"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/real.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kWarps = kThreads / 32;
constexpr int kRowsAtOnce = 4;  // of a warp: loads in flight

template <class T>
Rows<T> rows_as(const Matrix& m) {
  return {m.ptr<std::remove_const_t<T>>(), m.stride};
}

// Rows of a larger w may begin anywhere. They stay in the cache: x alone is worth wide loads.
template <int kVec, class T>
__device__ Pack<float, kVec> load_factors(const T* w, bool packed) {
  if (packed) return load_widened<kVec>(w);
  Pack<float, kVec> factors;
#pragma unroll
  for (int i = 0; i < kVec; ++i) factors.v[i] = widen(w[i]);
  return factors;
}

template <int kVec, class T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(Rows<const T> x, const T* w, bool packed_w, Rows<const T> addend, const T* b,
                   Rows<T> y, std::size_t rows, std::size_t columns, bool relu_follows) {
  const unsigned lane = threadIdx.x % 32;
  const std::size_t packed = columns / kVec * kVec;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kWarps * kRowsAtOnce;
  std::size_t first =
      (static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.x / 32) * kRowsAtOnce;
  for (; first < rows; first += step) {
    float sums[kRowsAtOnce] = {};
    for (std::size_t column = lane * kVec; column < packed; column += 32 * kVec) {
      Pack<T, kVec> loaded[kRowsAtOnce];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {  // the last row again where there are no more
        loaded[r] = load_pack<kVec>(x.at(min(first + r, rows - 1), column));
      }
      const Pack<float, kVec> factors = load_factors<kVec>(w + column, packed_w);
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
#pragma unroll
        for (int i = 0; i < kVec; ++i) sums[r] += widen(loaded[r].v[i]) * factors.v[i];
      }
    }
    if (packed + lane < columns) {
      const float factor = widen(w[packed + lane]);
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        sums[r] += widen(*x.at(min(first + r, rows - 1), packed + lane)) * factor;
      }
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      float sum = group_sum<32>(sums[r]);
      if (addend.data != nullptr) sum += widen(*addend.at(min(first + r, rows - 1), 0));
      if (b != nullptr) sum += widen(*b);
      if (relu_follows) sum = relu(sum);
      if (lane == r && first + r < rows) *y.at(first + r, 0) = narrow<T>(sum);
    }
  }
}

// A thread stays on kVec columns: w there, and the sums of dw, of db_below and of db.
template <int kVec, class T>
struct BackwardRows {
  using Sum = float;
  static constexpr int kSums = 2 * kVec + 1;
  struct Row {
    Pack<T, kVec> x;
    float gradient;
  };
  Rows<const T> x, y, dy;  // y without data where there is no activation
  Rows<T> dz, dx;          // without data where they are not wanted
  const T* w;
  std::size_t width;  // of w; the last pack may go beyond it
  bool masked;        // dx, by x
  float* partial;     // (pieces, 2 width + 1)

  __device__ Pack<float, kVec> columns(std::size_t group) const {
    Pack<float, kVec> factors{};
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      if (group * kVec + i < width) factors.v[i] = widen(w[group * kVec + i]);
    }
    return factors;
  }
  __device__ Row load(std::size_t row, std::size_t group) const {
    Row loaded{load_pack<kVec>(x.at(row, group * kVec)), widen(*dy.at(row, 0))};
    if (y.data != nullptr) loaded.gradient = relu_gradient(widen(*y.at(row, 0)), loaded.gradient);
    return loaded;
  }
  __device__ void add(const Row& loaded, std::size_t row, std::size_t group,
                      const Pack<float, kVec>& factors, float* sums) const {
    const float gradient = loaded.gradient;
    const Pack<T, kVec>& input = loaded.x;
    Pack<T, kVec> result;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      sums[i] += widen(input.v[i]) * gradient;
      result.v[i] = narrow<T>(gradient * factors.v[i]);
      if (masked && widen(input.v[i]) <= 0.0f) result.v[i] = T{};
      sums[kVec + i] += widen(result.v[i]);
    }
    sums[2 * kVec] += gradient;
    if (dx.data != nullptr) store_pack<kVec>(dx.at(row, group * kVec), result);
    if (dz.data != nullptr && group == 0) *dz.at(row, 0) = narrow<T>(gradient);
  }
  __device__ void store(std::size_t piece, std::size_t group, const float* sums) const {
    float* target = partial + piece * (2 * width + 1);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const std::size_t column = group * kVec + i;
      if (column >= width) continue;
      target[column] = sums[i];
      target[width + column] = sums[kVec + i];
    }
    if (group == 0) target[2 * width] = sums[2 * kVec];
  }
};

// Columns of the partial sums to the gradients of the parameters that are wanted.
struct FinishGradients {
  AddToGradient dw, below, db;
  std::size_t width;
  __device__ void operator()(std::size_t column, double sum) const {
    if (column < width) return dw(column, sum);
    column -= width;
    if (column == width) {
      if (db.target != nullptr) db(0, sum);
    } else if (below.target != nullptr) {
      below(column, sum);
    }
  }
};

template <int kVec, class T>
void run_backward(const OpContext& context, const LinearBwd& op, float* partial) {
  const Matrix x(op.x);
  const bool masked = op.activation == Activation::Relu;
  const BackwardRows<kVec, T> body{rows_as<const T>(op.x),
                                   rows_as<const T>(masked ? op.y : TensorRef{}),
                                   rows_as<const T>(op.dy),
                                   rows_as<T>(masked ? op.dz : TensorRef{}),
                                   rows_as<T>(op.dx),
                                   op.w.ptr<T>(),
                                   x.columns,
                                   op.below == Activation::Relu,
                                   partial};
  const std::size_t groups = (x.columns + kVec - 1) / kVec;
  sum_tiles(context, "linear_bwd of one output", x.rows, groups, body,
            {.max_width = filling_width(x.rows, groups)});
}

float* gradient_of(const TensorRef& ref) { return ref.empty() ? nullptr : ref.ptr<float>(); }

std::size_t partial_columns(const LinearBwd& op) { return 2 * op.w.shape[0] + 1; }

}  // namespace

void one_output_forward(const OpContext& context, const LinearFwd& op) {
  const Matrix x(op.x), y(op.y);
  if (x.rows == 0) return;
  with_real_type(op.x.dtype, [&]<class T>(T) {
    constexpr int kVec = 16 / sizeof(T);
    const auto blocks = grid_for(x.rows, kWarps * kRowsAtOnce);
    const auto run = [&]<int V>() {
      launch(context, "linear_fwd of one output", dim3(blocks), dim3(kThreads), 0,
             &forward_kernel<V, T>, rows_as<const T>(x), op.w.ptr<T>(),
             packs_fit(op.w.ptr<T>(), 0, kVec), rows_as<const T>(op.addend),
             static_cast<const T*>(op.b.data), rows_as<T>(y), x.rows, x.columns,
             op.activation == Activation::Relu);
    };
    const bool packs = packs_fit(x.ptr<T>(), x.rows <= 1 ? 0 : x.stride, kVec);
    packs ? run.template operator()<kVec>() : run.template operator()<1>();
  });
}

bool takes_one_output_backward(const OpContext& context, const LinearBwd& op) {
  return partial_rows(Matrix(op.x).rows) * partial_columns(op) * sizeof(float) <=
         cublas_lt(context).workspace_bytes();
}

void one_output_backward(const OpContext& context, const LinearBwd& op) {
  const Matrix x(op.x), dx(op.dx);
  auto* const partial = static_cast<float*>(cublas_lt(context).workspace());
  with_real_type(op.x.dtype, [&]<class T>(T) {
    constexpr int kVec = 16 / sizeof(T);
    // The last pack of a row may go beyond it where both rows have room.
    const bool whole = x.columns % kVec == 0 || (op.padded && (op.dx.empty() || op.dx_padded));
    const std::size_t columns = round_up(x.columns, kVec);
    const bool packs = whole && matrix_allows_packs<kVec>(x.ptr<T>(), x.stride, x.rows, columns) &&
                       matrix_allows_packs<kVec>(dx.ptr<T>(), dx.stride, dx.rows, columns);
    packs ? run_backward<kVec, T>(context, op, partial) : run_backward<1, T>(context, op, partial);
  });
  const TensorRef sums =
      make_ref(partial, {partial_rows(x.rows), partial_columns(op)}, context.device);
  finish_tiles<float>(context, "linear_bwd of one output, sums", sums,
                      FinishGradients{{op.dw.ptr<float>(), op.overwrite},
                                      {gradient_of(op.db_below), op.overwrite_below},
                                      {gradient_of(op.db), op.overwrite},
                                      x.columns});
}

}  // namespace hugectr::cuda
