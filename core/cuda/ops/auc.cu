// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>

#include "core/cpp/ops/auc.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/driver/status.hpp"
#include "core/cuda/primitives/sorted_runs.cuh"

// The samples are sorted by score. With P and N the weights of positives and negatives up to a
// sample, the curve goes through the points (N, P) after the last sample of every score, and the
// area under it is the sum of the trapezoids between neighbouring points: ties are counted half.
// Tiles of samples are summed, the sums scanned, each tile's trapezoids added up, and the tiles
// joined, always in the same order; integer weights give exact sums in any order.
namespace hugectr::cuda {
namespace {

constexpr unsigned kTileThreads = 256;
constexpr unsigned kItems = 8;  // samples of a thread
constexpr unsigned kTileItems = kTileThreads * kItems;
constexpr unsigned kJoinThreads = 512;  // of the one block that goes over the tiles
constexpr unsigned kSampleThreads = 256;

// Weight of the positives and negatives up to a sample: a point of the curve.
struct Point {
  double positives, negatives;
  // A sample's weight has the sign of its class.
  __device__ void add(float signed_weight) {
    const auto weight = static_cast<double>(signed_weight);
    (weight > 0.0 ? positives : negatives) += fabs(weight);
  }
  __device__ void add(const Point& other) {
    positives += other.positives;
    negatives += other.negatives;
  }
};

__device__ double trapezoid(const Point& from, const Point& to) {
  return (to.positives - from.positives) * 0.5 * (from.negatives + to.negatives);
}

// The part of the curve between the first and the last point of some neighbouring samples.
struct Arc {
  Point first, last;
  double area;
  bool any;  // false: no point in it
  __device__ void add(const Point& point) {
    if (any) {
      area += trapezoid(last, point);
    } else {
      first = point;
      any = true;
    }
    last = point;
  }
  __device__ void add(const Arc& next) {
    if (!next.any) return;
    if (any) {
      area += next.area + trapezoid(last, next.first);
      last = next.last;
    } else {
      *this = next;
    }
  }
};

// A score that is not a number makes its weight, and with it the area, not a number. Samples
// without weight go to the end, where they change nothing.
__global__ void __launch_bounds__(kSampleThreads)
    samples_kernel(const float* scores, const float* labels, const float* weights, std::size_t n,
                   std::uint32_t* keys, float* values) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kSampleThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kSampleThreads + threadIdx.x; i < n;
       i += step) {
    const float score = scores[i];
    const float weight = weights[i];
    const bool counts = weight != 0.0f;
    const float signed_weight = labels[i] > 0.5f ? weight : -weight;
    keys[i] = counts ? ordered_bits(score) : 0xffffffffu;
    values[i] = !counts ? 0.0f : (isnan(score) ? score : signed_weight);
  }
}

// The sum over the threads before this one. All threads call it; `shared` is free afterwards only
// behind a barrier.
template <unsigned kThreads>
__device__ Point sum_before(const Point& value, Point (&shared)[kThreads]) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (unsigned width = 1; width < kThreads; width *= 2) {
    Point other{0.0, 0.0};
    if (threadIdx.x >= width) other = shared[threadIdx.x - width];
    __syncthreads();
    shared[threadIdx.x].add(other);
    __syncthreads();
  }
  return threadIdx.x == 0 ? Point{0.0, 0.0} : shared[threadIdx.x - 1];
}

// Joins the arcs of neighbouring threads; the whole is in thread 0.
template <unsigned kThreads>
__device__ Arc join(const Arc& arc, Arc (&shared)[kThreads]) {
  shared[threadIdx.x] = arc;
  for (unsigned width = 1; width < kThreads; width *= 2) {
    __syncthreads();
    if (threadIdx.x % (2 * width) == 0) shared[threadIdx.x].add(shared[threadIdx.x + width]);
  }
  return shared[threadIdx.x];
}

struct Sorted {
  const std::uint32_t* keys;
  const float* values;
  std::size_t n;
};

// First sample of this thread and the one after its last.
struct Span {
  std::size_t begin, end;
};

__device__ Span span_of_thread(std::size_t n) {
  const std::size_t begin =
      static_cast<std::size_t>(blockIdx.x) * kTileItems + threadIdx.x * kItems;
  return {begin < n ? begin : n, begin + kItems < n ? begin + kItems : n};
}

__device__ Point sum_of(const Sorted& samples, const Span& span) {
  Point sum{0.0, 0.0};
  for (std::size_t i = span.begin; i < span.end; ++i) sum.add(samples.values[i]);
  return sum;
}

__global__ void __launch_bounds__(kTileThreads) tile_sums_kernel(Sorted samples, Point* tiles) {
  __shared__ Point shared[kTileThreads];
  const Point own = sum_of(samples, span_of_thread(samples.n));
  Point sum = sum_before(own, shared);
  sum.add(own);
  if (threadIdx.x == kTileThreads - 1) tiles[blockIdx.x] = sum;
}

__device__ Span tiles_of_thread(std::size_t tiles) {
  const std::size_t each = (tiles + kJoinThreads - 1) / kJoinThreads;
  const std::size_t begin = threadIdx.x * each;
  return {begin < tiles ? begin : tiles, begin + each < tiles ? begin + each : tiles};
}

// One block: each tile's sum becomes the sum of the tiles before it.
__global__ void __launch_bounds__(kJoinThreads) scan_tiles_kernel(Point* tiles, std::size_t count) {
  __shared__ Point shared[kJoinThreads];
  const Span span = tiles_of_thread(count);
  Point sum{0.0, 0.0};
  for (std::size_t i = span.begin; i < span.end; ++i) sum.add(tiles[i]);
  Point before = sum_before(sum, shared);
  for (std::size_t i = span.begin; i < span.end; ++i) {
    const Point tile = tiles[i];
    tiles[i] = before;
    before.add(tile);
  }
}

__global__ void __launch_bounds__(kTileThreads)
    tile_arcs_kernel(Sorted samples, const Point* before_tile, Arc* arcs) {
  __shared__ Point points[kTileThreads];
  __shared__ Arc parts[kTileThreads];
  const Span span = span_of_thread(samples.n);
  Point point = sum_before(sum_of(samples, span), points);
  point.add(before_tile[blockIdx.x]);
  Arc arc{};
  for (std::size_t i = span.begin; i < span.end; ++i) {
    point.add(samples.values[i]);
    if (i + 1 == samples.n || samples.keys[i + 1] != samples.keys[i]) arc.add(point);
  }
  arc = join(arc, parts);
  if (threadIdx.x == 0) arcs[blockIdx.x] = arc;
}

// One block.
__global__ void __launch_bounds__(kJoinThreads)
    area_kernel(const Arc* arcs, std::size_t count, double* auc) {
  __shared__ Arc parts[kJoinThreads];
  const Span span = tiles_of_thread(count);
  Arc arc{};
  for (std::size_t i = span.begin; i < span.end; ++i) arc.add(arcs[i]);
  arc = join(arc, parts);
  if (threadIdx.x != 0) return;
  const double positives = arc.last.positives;
  const double negatives = arc.last.negatives;
  if (positives <= 0.0 || negatives <= 0.0) {  // no samples at all included
    *auc = nan("");
  } else {
    *auc = (trapezoid(Point{0.0, 0.0}, arc.first) + arc.area) / (positives * negatives);
  }
}

// Floor: the sort, four passes of 16 bytes a sample.
void auc_kernel(const OpContext& context, const Auc& op) {
  const std::size_t n = op.scores.size();
  const std::size_t tiles = (n + kTileItems - 1) / kTileItems;
  const Scratch keys(context, 2 * n * sizeof(std::uint32_t));
  const Scratch values(context, 2 * n * sizeof(float));
  const Scratch points(context, tiles * sizeof(Point));
  const Scratch arcs(context, tiles * sizeof(Arc));
  auto* key = static_cast<std::uint32_t*>(keys.data());
  auto* value = static_cast<float*>(values.data());
  auto* point = static_cast<Point*>(points.data());
  auto* arc = static_cast<Arc*>(arcs.data());
  if (n > 0) {
    launch(context, "auc samples", dim3(grid_for(n, kSampleThreads)), dim3(kSampleThreads), 0,
           &samples_kernel, op.scores.ptr<float>(), op.labels.ptr<float>(), op.weights.ptr<float>(),
           n, key, value);
    cub::DoubleBuffer<std::uint32_t> both_keys(key, key + n);
    cub::DoubleBuffer<float> both_values(value, value + n);
    const auto sort = [&](void* storage, std::size_t& bytes) {
      HCTR_TRY(cub::DeviceRadixSort::SortPairs(storage, bytes, both_keys, both_values, n, 0, 32,
                                               native_stream(context)));
    };
    std::size_t bytes = 0;
    sort(nullptr, bytes);
    const Scratch storage(context, bytes);
    sort(storage.data(), bytes);
    const Sorted sorted{both_keys.Current(), both_values.Current(), n};
    const dim3 grid(static_cast<unsigned>(tiles));
    launch(context, "auc sums", grid, dim3(kTileThreads), 0, &tile_sums_kernel, sorted, point);
    launch(context, "auc scan", dim3(1), dim3(kJoinThreads), 0, &scan_tiles_kernel, point, tiles);
    launch(context, "auc arcs", grid, dim3(kTileThreads), 0, &tile_arcs_kernel, sorted, point, arc);
  }
  launch(context, "auc", dim3(1), dim3(kJoinThreads), 0, &area_kernel, arc, tiles,
         op.auc.ptr<double>());
}

const OpRegistration<Auc> auc_cuda{DeviceType::Cuda, &auc_kernel};

}  // namespace
}  // namespace hugectr::cuda
