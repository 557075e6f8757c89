// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cuda/ops/attention.hpp"
#include "core/cuda/primitives/group_sum.cuh"
#include "core/cuda/primitives/real.cuh"

// Attention of any shape and type: a warp has one query (or, for the gradients of keys and values,
// one key) and goes through the keys (queries) 32 at a time, one a lane. What tensor cores do is in
// attention_tiles.cuh.
namespace hugectr {
namespace {

using cuda::FastDivide;
using cuda::Rows;

constexpr unsigned kWarps = 4;  // of a block
constexpr unsigned kLanes = 32;

__device__ float warp_max(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
  }
  return value;
}

/// The head of one sample that a warp works on.
template <class T>
struct HeadOf {
  unsigned dim, width;  ///< columns of the head, of all heads
  std::size_t sample, first;

  __device__ const T* row(const Rows<const T>& tensor, std::size_t i) const {
    return tensor.at(sample, i * width + first);
  }
  __device__ T* row(const Rows<T>& tensor, std::size_t i) const {
    return tensor.at(sample, i * width + first);
  }
};

template <class T>
struct Problem {
  template <class Op>
  explicit Problem(const Op& op)
      : heads(static_cast<std::size_t>(op.heads)),
        queries(static_cast<unsigned>(op.q.shape[1])),
        keys(static_cast<unsigned>(op.k.shape[1])),
        width(static_cast<unsigned>(op.q.shape[2])),
        dim(width / static_cast<unsigned>(op.heads)),
        scale(attention_scale(op.q, op.heads)),
        q(cuda::rows_of<const T>(op.q)),
        k(cuda::rows_of<const T>(op.k)),
        v(cuda::rows_of<const T>(op.v)),
        mask(cuda::rows_of<const T>(op.mask)),
        of_mask(samples_of_mask(op)) {}
  FastDivide heads;
  unsigned queries, keys, width, dim;
  float scale;
  Rows<const T> q, k, v, mask;
  FastDivide of_mask;  ///< samples that share one

  /// `number`: sample times heads plus head.
  __device__ HeadOf<T> head(std::size_t number) const {
    std::size_t head;
    const std::size_t sample = heads.divide(number, head);
    return {dim, width, sample, head * dim};
  }
  /// What is taken off the score of a pair.
  __device__ float penalty(std::size_t sample, unsigned query, unsigned key) const {
    if (mask.data == nullptr) return 0.0f;
    const std::size_t pair = static_cast<std::size_t>(query) * keys + key;
    return (1.0f - cuda::widen(*mask.at(of_mask.quotient(sample), pair))) * kMaskedPair;
  }
};

template <class T>
__device__ float dot(const float* a, const T* b, unsigned n) {
  float sum = 0.0f;
#pragma unroll 4
  for (unsigned d = 0; d < n; ++d) sum += a[d] * cuda::widen(b[d]);
  return sum;
}

template <class T>
__device__ void load_row(float* to, const T* from, unsigned n) {
  for (unsigned d = threadIdx.x; d < n; d += kLanes) to[d] = cuda::widen(from[d]);
}

template <class T>
__device__ void store_row(T* to, const float* from, unsigned n, float factor) {
  for (unsigned d = threadIdx.x; d < n; d += kLanes) to[d] = cuda::narrow<T>(factor * from[d]);
}

// sums[d] = keep * sums[d] + sum over `count` rows of factors[i] * rows[i][d].
template <class T>
__device__ void add_rows(float* sums, float keep, const float* factors, const T* rows,
                         std::size_t stride, unsigned count, unsigned n) {
  for (unsigned d = threadIdx.x; d < n; d += kLanes) {
    float sum = keep * sums[d];
#pragma unroll 4
    for (unsigned i = 0; i < count; ++i) sum += factors[i] * cuda::widen(rows[i * stride + d]);
    sums[d] = sum;
  }
}

// shared, a warp: the query, its sums, 32 shares.
template <class T>
__global__ void attend(std::size_t tasks, FastDivide queries, Problem<T> in, Rows<T> o,
                       float* lse) {
  extern __shared__ float shared[];
  float* q = shared + threadIdx.y * (2 * in.dim + kLanes);
  float *sums = q + in.dim, *shares = sums + in.dim;
  const unsigned lane = threadIdx.x;
  for (std::size_t task = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.y; task < tasks;
       task += static_cast<std::size_t>(gridDim.x) * kWarps) {
    std::size_t query;
    const HeadOf<T> head = in.head(queries.divide(task, query));
    load_row(q, head.row(in.q, query), in.dim);
    for (unsigned d = lane; d < in.dim; d += kLanes) sums[d] = 0.0f;
    __syncwarp();
    float most = -INFINITY, total = 0.0f;
    for (unsigned first = 0; first < in.keys; first += kLanes) {
      const unsigned key = first + lane, count = min(kLanes, in.keys - first);
      float score = -INFINITY;
      if (lane < count) {
        score = in.scale * dot(q, head.row(in.k, key), in.dim) -
                in.penalty(head.sample, static_cast<unsigned>(query), key);
      }
      const float now = fmaxf(most, warp_max(score));
      const float keep = expf(most - now);
      const float share = lane < count ? expf(score - now) : 0.0f;
      shares[lane] = share;
      total = total * keep + cuda::group_sum<kLanes>(share);
      most = now;
      __syncwarp();
      add_rows(sums, keep, shares, head.row(in.v, first), in.width, count, in.dim);
      __syncwarp();
    }
    store_row(head.row(o, query), sums, in.dim, 1.0f / total);
    if (lane == 0) lse[task] = most + logf(total);
    __syncwarp();
  }
}

template <class T>
struct Gradients {
  explicit Gradients(const AttentionBwd& op)
      : o(cuda::rows_of<const T>(op.o)),
        dy(cuda::rows_of<const T>(op.dy)),
        dq(cuda::rows_of<T>(op.dq)),
        dk(cuda::rows_of<T>(op.dk)),
        dv(cuda::rows_of<T>(op.dv)),
        lse(op.lse.ptr<float>()),
        delta(op.delta.ptr<float>()) {}
  Rows<const T> o, dy;
  Rows<T> dq, dk, dv;
  const float* lse;
  float* delta;
};

// A warp has one query: dq, and delta for the other pass. shared, a warp: q, dy, sums, 32 factors.
template <class T>
__global__ void query_gradients(std::size_t tasks, FastDivide queries, Problem<T> in,
                                Gradients<T> out) {
  extern __shared__ float shared[];
  float* q = shared + threadIdx.y * (3 * in.dim + kLanes);
  float *dy = q + in.dim, *sums = dy + in.dim, *factors = sums + in.dim;
  const unsigned lane = threadIdx.x;
  for (std::size_t task = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.y; task < tasks;
       task += static_cast<std::size_t>(gridDim.x) * kWarps) {
    std::size_t query;
    const HeadOf<T> head = in.head(queries.divide(task, query));
    load_row(q, head.row(in.q, query), in.dim);
    load_row(dy, head.row(out.dy, query), in.dim);
    float delta = 0.0f;
    for (unsigned d = lane; d < in.dim; d += kLanes) {
      delta += dy[d] * cuda::widen(head.row(out.o, query)[d]);
      sums[d] = 0.0f;
    }
    delta = cuda::group_sum<kLanes>(delta);
    if (lane == 0) out.delta[task] = delta;
    const float lse = out.lse[task];
    __syncwarp();
    for (unsigned first = 0; first < in.keys; first += kLanes) {
      const unsigned key = first + lane, count = min(kLanes, in.keys - first);
      float ds = 0.0f;
      if (lane < count) {
        const float score = in.scale * dot(q, head.row(in.k, key), in.dim) -
                            in.penalty(head.sample, static_cast<unsigned>(query), key);
        ds = expf(score - lse) * (dot(dy, head.row(in.v, key), in.dim) - delta);
      }
      factors[lane] = ds;
      __syncwarp();
      add_rows(sums, 1.0f, factors, head.row(in.k, first), in.width, count, in.dim);
      __syncwarp();
    }
    store_row(head.row(out.dq, query), sums, in.dim, in.scale);
    __syncwarp();
  }
}

// A warp has one key. shared, a warp: k, v, sums of dk and dv, 32 factors of each.
template <class T>
__global__ void key_gradients(std::size_t tasks, FastDivide keys, Problem<T> in, Gradients<T> out) {
  extern __shared__ float shared[];
  float* k = shared + threadIdx.y * (4 * in.dim + 2 * kLanes);
  float *v = k + in.dim, *dk = v + in.dim, *dv = dk + in.dim;
  float *scores = dv + in.dim, *shares = scores + kLanes;
  const unsigned lane = threadIdx.x;
  for (std::size_t task = static_cast<std::size_t>(blockIdx.x) * kWarps + threadIdx.y; task < tasks;
       task += static_cast<std::size_t>(gridDim.x) * kWarps) {
    std::size_t key;
    const std::size_t number = keys.divide(task, key);
    const HeadOf<T> head = in.head(number);
    load_row(k, head.row(in.k, key), in.dim);
    load_row(v, head.row(in.v, key), in.dim);
    for (unsigned d = lane; d < in.dim; d += kLanes) dk[d] = dv[d] = 0.0f;
    __syncwarp();
    for (unsigned first = 0; first < in.queries; first += kLanes) {
      const unsigned query = first + lane, count = min(kLanes, in.queries - first);
      float share = 0.0f, ds = 0.0f;
      if (lane < count) {
        const float score = in.scale * dot(k, head.row(in.q, query), in.dim) -
                            in.penalty(head.sample, query, static_cast<unsigned>(key));
        const std::size_t at = number * in.queries + query;
        share = expf(score - out.lse[at]);
        ds = share * (dot(v, head.row(out.dy, query), in.dim) - out.delta[at]);
      }
      scores[lane] = ds;
      shares[lane] = share;
      __syncwarp();
      add_rows(dk, 1.0f, scores, head.row(in.q, first), in.width, count, in.dim);
      add_rows(dv, 1.0f, shares, head.row(out.dy, first), in.width, count, in.dim);
      __syncwarp();
    }
    store_row(head.row(out.dk, key), dk, in.dim, in.scale);
    store_row(head.row(out.dv, key), dv, in.dim, 1.0f);
    __syncwarp();
  }
}

// A warp a task; `floats` of shared memory a warp.
template <class... Params, class... Args>
void launch_warps(const OpContext& ctx, const char* name, std::size_t tasks, std::size_t floats,
                  void (*kernel)(std::size_t, FastDivide, Params...), std::size_t per_head,
                  Args&&... args) {
  cuda::launch(ctx, name, dim3(cuda::grid_for(tasks, kWarps)), dim3(kLanes, kWarps),
               kWarps * floats * sizeof(float), kernel, tasks, FastDivide(per_head),
               std::forward<Args>(args)...);
}

void attention_fwd_kernel(const OpContext& ctx, const AttentionFwd& given) {
  const AttentionFwd op = heads_as_samples(given);
  if (op.o.size() == 0 || cuda::attention_forward_on_tiles(ctx, op)) return;
  cuda::with_real_type(op.q.dtype, [&]<class T>(T) {
    const Problem<T> problem(op);
    launch_warps(ctx, AttentionFwd::kName, op.lse.size(), 2 * problem.dim + kLanes, &attend<T>,
                 op.q.shape[1], problem, cuda::rows_of<T>(op.o), op.lse.ptr<float>());
  });
}

void attention_bwd_kernel(const OpContext& ctx, const AttentionBwd& given) {
  const AttentionBwd op = heads_as_samples(given);
  if (op.q.rows() == 0 || cuda::attention_backward_on_tiles(ctx, op)) return;
  cuda::with_real_type(op.q.dtype, [&]<class T>(T) {
    const Problem<T> problem(op);
    const Gradients<T> gradients(op);
    const std::size_t heads = op.q.rows() * static_cast<std::size_t>(op.heads);
    launch_warps(ctx, "attention_bwd dq", op.lse.size(), 3 * problem.dim + kLanes,
                 &query_gradients<T>, op.q.shape[1], problem, gradients);
    launch_warps(ctx, "attention_bwd dk dv", heads * op.k.shape[1], 4 * problem.dim + 2 * kLanes,
                 &key_gradients<T>, op.k.shape[1], problem, gradients);
  });
}

const OpRegistration<AttentionFwd> attention_fwd_cuda{DeviceType::Cuda, &attention_fwd_kernel};
const OpRegistration<AttentionBwd> attention_bwd_cuda{DeviceType::Cuda, &attention_bwd_kernel};

}  // namespace
}  // namespace hugectr
