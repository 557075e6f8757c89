// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/ops/gru.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/real.cuh"

// A block takes its slice of the batch through all steps: nothing but inputs and results passes
// through global memory, and no step is a launch. A thread has kRows samples of one unit, so that a
// weight, read once, is a factor of kRows sums; the states of its samples come as broadcasts.
namespace hugectr {
namespace {

using cuda::Rows;

constexpr unsigned kRows = 8;                    // samples of a thread
constexpr unsigned kGroups = kGruSlice / kRows;  // threads that share a unit
constexpr unsigned kMostUnits = 128;             // that a block has at a time
constexpr unsigned kStride = kGruSlice + 4;      // floats: lanes that store hit all banks
constexpr std::size_t kMostShared = 200 * std::size_t{1024};

/// Weights as the loop reads them: element (row, column) at row * row_step + column * column_step.
template <class T>
struct Weights {
  const T* data;
  std::size_t row_step, column_step;
  __device__ float at(std::size_t row, std::size_t column) const {
    return cuda::widen(data[row * row_step + column * column_step]);
  }
};

/// Where the block's samples lie.
struct BlockSlice {
  unsigned begin, rows, steps, units;
  __device__ std::size_t row(unsigned i, unsigned t) const {
    return static_cast<std::size_t>(begin + i) * steps + t;
  }
};

__device__ BlockSlice block_slice(unsigned batch, unsigned steps, unsigned units) {
  const unsigned begin = blockIdx.x * kGruSlice;
  const unsigned rows = batch - begin < kGruSlice ? batch - begin : kGruSlice;
  return {begin, rows, steps, units};
}

// sums[i] += factor * values[i] for the thread's samples.
__device__ void add_scaled(float (&sums)[kRows], float factor, const float* values) {
#pragma unroll
  for (unsigned i = 0; i < kRows; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(values + i);
    sums[i] += factor * four.x;
    sums[i + 1] += factor * four.y;
    sums[i + 2] += factor * four.z;
    sums[i + 3] += factor * four.w;
  }
}

__device__ void store_samples(float* to, const float (&values)[kRows]) {
#pragma unroll
  for (unsigned i = 0; i < kRows; i += 4) {
    *reinterpret_cast<float4*>(to + i) =
        make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
  }
}

template <class T>
struct ForwardTensors {
  Rows<const T> x;
  const float* bias;
  const T* w;
  Rows<T> y, gates;
};

// shared: states of the step before and of this one, [unit][sample]; then w^T, where it fits.
template <class T>
__global__ void gru_forward(unsigned batch, unsigned steps, unsigned units, bool staged,
                            ForwardTensors<T> op) {
  extern __shared__ float shared[];
  const BlockSlice slice = block_slice(batch, steps, units);
  float *before = shared, *after = shared + units * kStride;
  Weights<T> w{op.w, units, 1};
  if (staged) {
    // An odd number of words a row: the lanes that store a column hit all banks.
    const unsigned row = 3 * units + 4 / sizeof(T);
    T* copy = reinterpret_cast<T*>(after + units * kStride);
    for (unsigned e = threadIdx.y * blockDim.x + threadIdx.x; e < 3 * units * units;
         e += blockDim.x * blockDim.y) {
      copy[e % units * row + e / units] = op.w[e];
    }
    w = {copy, 1, row};
  }
  for (unsigned e = threadIdx.y * blockDim.x + threadIdx.x; e < units * kStride;
       e += blockDim.x * blockDim.y) {
    before[e] = 0.0f;
  }
  __syncthreads();
  const unsigned first = threadIdx.y * kRows;
  for (unsigned t = 0; t < steps; ++t) {
    for (unsigned u = threadIdx.x; u < units; u += blockDim.x) {
      float r[kRows] = {}, z[kRows] = {}, n[kRows] = {}, state[kRows];
      // Before the products, which hide how far away the inputs are.
      float x[kRows][3] = {};
#pragma unroll
      for (unsigned i = 0; i < kRows; ++i) {
        if (first + i >= slice.rows) continue;
        const T* from = op.x.at(slice.row(first + i, t), u);
        x[i][0] = cuda::widen(from[0]);
        x[i][1] = cuda::widen(from[units]);
        x[i][2] = cuda::widen(from[2 * units]);
      }
#pragma unroll 4
      for (unsigned k = 0; k < units; ++k) {
        const float* h = before + k * kStride + first;
        add_scaled(r, w.at(u, k), h);
        add_scaled(z, w.at(units + u, k), h);
        add_scaled(n, w.at(2 * units + u, k), h);
      }
      const float bias[3] = {op.bias[u], op.bias[units + u], op.bias[2 * units + u]};
#pragma unroll
      for (unsigned i = 0; i < kRows; ++i) {
        state[i] = 0.0f;
        if (first + i >= slice.rows) continue;
        const std::size_t row = slice.row(first + i, t);
        const GruUnit unit =
            GruUnit::step({x[i][0] + bias[0], x[i][1] + bias[1], x[i][2] + bias[2]},
                          {r[i], z[i], n[i]}, before[u * kStride + first + i]);
        T* gates = op.gates.at(row, u);
        gates[0] = cuda::narrow<T>(unit.r);
        gates[units] = cuda::narrow<T>(unit.z);
        gates[2 * units] = cuda::narrow<T>(unit.n);
        gates[3 * units] = cuda::narrow<T>(n[i]);
        const T rounded = cuda::narrow<T>(unit.state);
        *op.y.at(slice.begin + first + i, t * units + u) = rounded;
        state[i] = cuda::widen(rounded);
      }
      store_samples(after + u * kStride + first, state);
    }
    __syncthreads();
    float* const swap = before;
    before = after;
    after = swap;
  }
}

template <class T>
struct BackwardTensors {
  const T* w;
  Rows<const T> y, gates, dy;
  Rows<T> dx, ds, before;
  float* partial;  ///< (slices, 3 * units)
};

/// What the forward pass left of one unit of one sample in step t.
template <class T>
struct Remembered {
  T r{}, z{}, n{}, s_new{}, before{}, dy{};

  __device__ void load(const BackwardTensors<T>& op, const BlockSlice& slice, unsigned i,
                       unsigned t, unsigned u) {
    const T* gates = op.gates.at(slice.row(i, t), u);
    r = gates[0];
    z = gates[slice.units];
    n = gates[2 * slice.units];
    s_new = gates[3 * slice.units];
    if (t > 0) before = *op.y.at(slice.begin + i, (t - 1) * slice.units + u);
    dy = *op.dy.at(slice.begin + i, t * slice.units + u);
  }
  __device__ GruUnitGradient gradient(float carried) const {
    return GruUnitGradient::step(cuda::widen(r), cuda::widen(z), cuda::widen(n), cuda::widen(s_new),
                                 cuda::widen(before), carried);
  }
};

// shared: the gradient of the states, [unit][sample]; those of the three inputs of h R^T, the same;
// sums of the biases' gradients, [group][3 * units]; then w, where it fits.
template <class T>
__global__ void gru_backward(unsigned batch, unsigned steps, unsigned units, bool staged,
                             BackwardTensors<T> op) {
  extern __shared__ float shared[];
  const BlockSlice slice = block_slice(batch, steps, units);
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned threads = blockDim.x * blockDim.y;
  float* carried = shared;
  float* ds = carried + units * kStride;
  float* sums = ds + 3 * units * kStride;
  const T* w = op.w;
  if (staged) {
    T* copy = reinterpret_cast<T*>(sums + kGroups * 3 * units);
    for (unsigned e = thread; e < 3 * units * units; e += threads) copy[e] = op.w[e];
    w = copy;
  }
  for (unsigned e = thread; e < units * kStride; e += threads) carried[e] = 0.0f;
  for (unsigned e = thread; e < kGroups * 3 * units; e += threads) sums[e] = 0.0f;
  __syncthreads();
  const unsigned first = threadIdx.y * kRows;
  for (unsigned t = steps; t-- > 0;) {
    for (unsigned u = threadIdx.x; u < units; u += blockDim.x) {
      float to_r[kRows], to_z[kRows], to_n[kRows], keep[kRows], sum_r = 0, sum_z = 0, sum_n = 0;
      Remembered<T> past[kRows];  // all loads before the first store
#pragma unroll
      for (unsigned i = 0; i < kRows; ++i) {
        if (first + i < slice.rows) past[i].load(op, slice, first + i, t, u);
      }
#pragma unroll
      for (unsigned i = 0; i < kRows; ++i) {
        to_r[i] = to_z[i] = to_n[i] = keep[i] = 0.0f;
        if (first + i >= slice.rows) continue;
        const float d = carried[u * kStride + first + i] + cuda::widen(past[i].dy);
        const GruUnitGradient g = past[i].gradient(d);
        to_r[i] = g.r;
        to_z[i] = g.z;
        to_n[i] = g.n * cuda::widen(past[i].r);
        keep[i] = d * cuda::widen(past[i].z);
        sum_r += g.r;
        sum_z += g.z;
        sum_n += g.n;
        const std::size_t row = slice.row(first + i, t);
        T *dx = op.dx.at(row, u), *dstate = op.ds.at(row, u);
        dx[0] = dstate[0] = cuda::narrow<T>(g.r);
        dx[units] = dstate[units] = cuda::narrow<T>(g.z);
        dx[2 * units] = cuda::narrow<T>(g.n);
        dstate[2 * units] = cuda::narrow<T>(to_n[i]);
        *op.before.at(row, u) = past[i].before;
      }
      store_samples(ds + u * kStride + first, to_r);
      store_samples(ds + (units + u) * kStride + first, to_z);
      store_samples(ds + (2 * units + u) * kStride + first, to_n);
      store_samples(carried + u * kStride + first, keep);
      float* sum = sums + threadIdx.y * 3 * units + u;
      sum[0] += sum_r;
      sum[units] += sum_z;
      sum[2 * units] += sum_n;
    }
    __syncthreads();
    for (unsigned u = threadIdx.x; u < units; u += blockDim.x) {
      float gradient[kRows];
      float* mine = carried + u * kStride + first;
#pragma unroll
      for (unsigned i = 0; i < kRows; ++i) gradient[i] = mine[i];
#pragma unroll 4
      for (unsigned j = 0; j < 3 * units; ++j) {
        add_scaled(gradient, cuda::widen(w[static_cast<std::size_t>(j) * units + u]),
                   ds + j * kStride + first);
      }
      store_samples(mine, gradient);
    }
    __syncthreads();
  }
  for (unsigned j = thread; j < 3 * units; j += threads) {
    float sum = 0.0f;
    for (unsigned group = 0; group < kGroups; ++group) sum += sums[group * 3 * units + j];
    op.partial[static_cast<std::size_t>(blockIdx.x) * 3 * units + j] = sum;
  }
}

/// How a pass is launched: weights are in shared memory where there is room.
struct Plan {
  Plan(const char* name, const TensorRef& y, std::size_t floats, std::size_t weight_bytes)
      : units(static_cast<unsigned>(y.shape[2])),
        threads(std::min((units + 31) / 32 * 32, kMostUnits), kGroups),
        shared(floats * sizeof(float)) {
    const std::size_t most = std::min(kMostShared, cuda::shared_bytes_of_block());
    staged = shared + weight_bytes <= most;
    if (staged) shared += weight_bytes;
    HCTR_CHECK(shared <= most, name, ": ", units,
               " units are more than a block has shared memory for; use fewer");
  }
  unsigned units;
  dim3 threads;
  std::size_t shared;
  bool staged = false;
};

void gru_fwd_kernel(const OpContext& ctx, const GruFwd& op) {
  if (op.y.size() == 0) return;
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) {
    const std::size_t h = op.y.shape[2];
    const Plan plan(GruFwd::kName, op.y, 2 * h * kStride, h * (3 * h * sizeof(T) + 4));
    cuda::launch(
        ctx, GruFwd::kName, dim3(static_cast<unsigned>(gru_slices(op.y.rows()))), plan.threads,
        plan.shared, &gru_forward<T>, static_cast<unsigned>(op.y.rows()),
        static_cast<unsigned>(op.y.shape[1]), plan.units, plan.staged,
        ForwardTensors<T>{cuda::rows_of<const T>(op.x), op.bias.ptr<float>(), op.w.ptr<T>(),
                          cuda::rows_of<T>(op.y), cuda::rows_of<T>(op.gates)});
  });
}

void gru_bwd_kernel(const OpContext& ctx, const GruBwd& op) {
  if (op.y.size() == 0) return;
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) {
    const std::size_t h = op.y.shape[2];
    const Plan plan(GruBwd::kName, op.y, 4 * h * kStride + kGroups * 3 * h, 3 * h * h * sizeof(T));
    cuda::launch(ctx, GruBwd::kName, dim3(static_cast<unsigned>(gru_slices(op.y.rows()))),
                 plan.threads, plan.shared, &gru_backward<T>, static_cast<unsigned>(op.y.rows()),
                 static_cast<unsigned>(op.y.shape[1]), plan.units, plan.staged,
                 BackwardTensors<T>{op.w.ptr<T>(), cuda::rows_of<const T>(op.y),
                                    cuda::rows_of<const T>(op.gates), cuda::rows_of<const T>(op.dy),
                                    cuda::rows_of<T>(op.dx), cuda::rows_of<T>(op.ds),
                                    cuda::rows_of<T>(op.before), op.partial.ptr<float>()});
  });
  cuda::finish_tiles<float>(ctx, "gru_bwd dbias", op.partial,
                            cuda::AddToGradient{op.dbias.ptr<float>()});
}

const OpRegistration<GruFwd> gru_fwd_cuda{DeviceType::Cuda, &gru_fwd_kernel};
const OpRegistration<GruBwd> gru_bwd_cuda{DeviceType::Cuda, &gru_bwd_kernel};

}  // namespace
}  // namespace hugectr
