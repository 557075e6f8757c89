// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cublas_lt.hpp"
#include "core/cuda/device/tensor_map.hpp"
#include "core/cuda/ops/masked_product.hpp"
#include "core/cuda/primitives/column_tiles.cuh"
#include "core/cuda/primitives/copy_engine.cuh"
#include "core/cuda/primitives/float_scratch.hpp"
#include "core/cuda/primitives/real.cuh"
#include "core/cuda/primitives/tile_queue.cuh"
#include "core/cuda/primitives/warp_group_product.cuh"

namespace hugectr::cuda {
namespace {

// A tile of dx is made by two warp groups, 64 rows each; a third group's threads feed them.
constexpr unsigned kTileRows = 128, kTileColumns = 256, kDepth = kBoxColumns;
constexpr unsigned kBoxes = kTileColumns / kBoxColumns;  // of a tile of x or dx
constexpr unsigned kStages = 3;
constexpr unsigned kGroup = 128, kMakers = 2 * kGroup, kBlock = 3 * kGroup;
constexpr unsigned kSumRows = kTileRows / 2;  // rows of a piece of the column sums

constexpr unsigned kABytes = kTileRows * kDepth * 2, kWBytes = kTileColumns * kDepth * 2;
constexpr unsigned kBoxBytes = kTileRows * kBoxColumns * 2;

struct Shared {
  alignas(1024) char a[kStages][kABytes];
  alignas(1024) char w[kStages][kWBytes];
  alignas(1024) char x[kBoxes][kBoxBytes];  // then the same elements of dx
  Barrier full[kStages], empty[kStages], x_full, x_empty;
  TileQueue queue;
};
constexpr std::size_t kSharedBytes = sizeof(Shared) + 1024;  // the start is rounded up to 1024

struct Maps {
  CUtensorMap a, w, x, dx;
};

struct Tiles {
  std::uint32_t rows, columns, depth;  // of dx in elements, of the sums in elements
  __host__ __device__ std::uint32_t across() const {
    return (columns + kTileColumns - 1) / kTileColumns;
  }
  __host__ __device__ std::uint32_t down() const { return (rows + kTileRows - 1) / kTileRows; }
  __host__ __device__ std::uint32_t count() const { return across() * down(); }
  __device__ std::uint32_t steps() const { return (depth + kDepth - 1) / kDepth; }
  // Neighbours share rows of `a`, which one of them brings into the L2 cache.
  __device__ std::uint32_t row(std::uint32_t tile) const { return tile / across() * kTileRows; }
  __device__ std::uint32_t column(std::uint32_t tile) const {
    return tile % across() * kTileColumns;
  }
};

// The stage of shared memory that comes next, and the parity of its barriers' phase.
struct Turn {
  unsigned stage = 0, parity = 0;
  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ void feed_factors(Shared& shared, const Maps& maps, const Tiles& tiles,
                             TileTickets* tickets) {
  Turn turn;
  std::uint32_t tile = blockIdx.x;
  for (unsigned n = 0;; ++n) {
    shared.queue.give(n, tile);
    if (tile >= tiles.count()) break;
    const std::uint32_t next = TileQueue::next(tickets);  // comes while this tile is fed
    for (std::uint32_t step = 0; step < tiles.steps(); ++step, turn.next()) {
      Barrier& full = shared.full[turn.stage];
      shared.empty[turn.stage].wait(turn.parity ^ 1);
      full.arrive_and_expect(kABytes + kWBytes);
      load_box(shared.a[turn.stage], maps.a, tiles.row(tile), step * kDepth, full);
      load_box(shared.w[turn.stage], maps.w, tiles.column(tile), step * kDepth, full);
    }
    tile = next;
  }
  TileQueue::end(tickets);
}

__device__ void feed_x(Shared& shared, const Maps& maps, const Tiles& tiles) {
  unsigned parity = 0;
  for (unsigned n = 0;; ++n) {
    const std::uint32_t tile = shared.queue.take(n);
    if (tile >= tiles.count()) return;
    shared.x_empty.wait(parity ^ 1);
    shared.x_full.arrive_and_expect(kBoxes * kBoxBytes);
    for (unsigned box = 0; box < kBoxes; ++box) {
      load_box(shared.x[box], maps.x, tiles.row(tile), tiles.column(tile) + box * kBoxColumns,
               shared.x_full);
    }
    parity ^= 1;
  }
}

// Two neighbouring results, 0 where x <= 0. The comparison is the unordered one: NaN lets pass.
template <class T>
__device__ std::uint32_t masked_pair(std::uint32_t x, float first, float second) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    const __nv_bfloat162 above = reinterpret_cast<const __nv_bfloat162&>(x);
    return reinterpret_cast<const std::uint32_t&>(pair) &
           __hgtu2_mask(above, __nv_bfloat162{__ushort_as_bfloat16(0), __ushort_as_bfloat16(0)});
  } else {
    const __half2 pair = __floats2half2_rn(first, second);
    const __half2 above = reinterpret_cast<const __half2&>(x);
    return reinterpret_cast<const std::uint32_t&>(pair) &
           __hgtu2_mask(above, __half2{__ushort_as_half(0), __ushort_as_half(0)});
  }
}

// Byte of an even column in a box: the copy engine exchanges the 16-byte pieces of a row.
__device__ unsigned place_in_box(unsigned row, unsigned column) {
  return row * (kBoxColumns * 2) + ((column / 8 ^ row % 8) * 16) + column % 8 * 2;
}

// The sums of the threads' registers become dx, over x.
template <class T>
__device__ void mask_tile(Shared& shared, const float (&sums)[128]) {
  const unsigned thread = threadIdx.x % kGroup, lane = thread % 32;
  const unsigned row = threadIdx.x / kGroup * 64 + thread / 32 * 16 + lane / 4;
#pragma unroll
  for (unsigned j = 0; j < kTileColumns / 8; ++j) {
    char* const box = shared.x[j * 8 / kBoxColumns];
    const unsigned column = j * 8 % kBoxColumns + lane % 4 * 2;
#pragma unroll
    for (unsigned below = 0; below < 2; ++below) {
      auto* const pair =
          reinterpret_cast<std::uint32_t*>(box + place_in_box(row + 8 * below, column));
      *pair = masked_pair<T>(*pair, sums[4 * j + 2 * below], sums[4 * j + 2 * below + 1]);
    }
  }
}

// Each thread sums two columns of half the tile's rows. Rows beyond dx are zeros.
template <class T>
__device__ void sum_tile(const Shared& shared, const Tiles& tiles, std::uint32_t tile,
                         float* partial) {
  constexpr unsigned kPairs = kTileColumns / 2, kChains = 4;
  const unsigned column = threadIdx.x % kPairs * 2, half = threadIdx.x / kPairs;
  const char* const box = shared.x[column / kBoxColumns];
  float first[kChains] = {}, second[kChains] = {};
#pragma unroll 4
  for (unsigned r = 0; r < kSumRows; r += kChains) {
#pragma unroll
    for (unsigned chain = 0; chain < kChains; ++chain) {
      const auto pair = *reinterpret_cast<const Pack<T, 2>*>(
          box + place_in_box(half * kSumRows + r + chain, column % kBoxColumns));
      first[chain] += widen(pair.v[0]);
      second[chain] += widen(pair.v[1]);
    }
  }
  const std::uint32_t piece = tiles.row(tile) / kSumRows + half;
  const std::uint32_t at = tiles.column(tile) + column;
  if (at >= tiles.columns) return;  // widths are even
  *reinterpret_cast<float2*>(partial + std::size_t{piece} * tiles.columns + at) = {
      (first[0] + first[1]) + (first[2] + first[3]),
      (second[0] + second[1]) + (second[2] + second[3])};
}

__device__ void wait_for_makers() { asm volatile("bar.sync 1, %0;" ::"n"(kMakers) : "memory"); }

template <class T>
__device__ void make_tiles(Shared& shared, const Maps& maps, const Tiles& tiles, float* partial) {
  const unsigned group = threadIdx.x / kGroup;
  Turn turn;
  unsigned x_parity = 0;
  for (unsigned n = 0;; ++n) {
    const std::uint32_t tile = shared.queue.take(n);
    if (tile >= tiles.count()) break;
    float sums[128];
    unsigned before = 0;
    for (std::uint32_t step = 0; step < tiles.steps(); ++step) {
      shared.full[turn.stage].wait(turn.parity);
      const std::uint64_t a =
          factor_descriptor(shared_address(shared.a[turn.stage]) + group * (kABytes / 2));
      const std::uint64_t w = factor_descriptor(shared_address(shared.w[turn.stage]));
      begin_products();
#pragma unroll
      for (unsigned part = 0; part < kDepth / 16; ++part) {
        multiply_64_256_16<T>(sums, a + 2 * part, w + 2 * part, step > 0 || part > 0);
      }
      commit_products();
      // The step before is done: its stage may be filled again.
      wait_for_products<1>();
      if (step > 0 && threadIdx.x % kGroup == 0) shared.empty[before].arrive();
      before = turn.stage;
      turn.next();
    }
    wait_for_products<0>();
    if (threadIdx.x % kGroup == 0) shared.empty[before].arrive();

    shared.x_full.wait(x_parity);
    x_parity ^= 1;
    mask_tile<T>(shared, sums);
    publish_shared_writes();
    wait_for_makers();
    if (threadIdx.x == 0) {
      for (unsigned box = 0; box < kBoxes; ++box) {
        store_box(maps.dx, tiles.row(tile), tiles.column(tile) + box * kBoxColumns, shared.x[box]);
      }
      commit_stores();
    }
    if (partial != nullptr) sum_tile<T>(shared, tiles, tile, partial);
    if (threadIdx.x == 0) wait_for_stores_to_read();
    shared.x_empty.arrive();
  }
  if (threadIdx.x == 0) wait_for_stores();
}

template <class T>
__global__ void __launch_bounds__(kBlock, 1)
    masked_product_kernel(const __grid_constant__ Maps maps, Tiles tiles, float* partial,
                          TileTickets* tickets) {
  extern __shared__ char memory[];
  Shared& shared =
      *reinterpret_cast<Shared*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (unsigned stage = 0; stage < kStages; ++stage) {
      shared.full[stage].init(1);
      shared.empty[stage].init(2);
    }
    shared.x_full.init(1);
    shared.x_empty.init(kMakers);
    shared.queue.init(kMakers + 1);
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x < kMakers) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    make_tiles<T>(shared, maps, tiles, partial);
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == kMakers) feed_factors(shared, maps, tiles, tickets);
    if (threadIdx.x == kMakers + 32) feed_x(shared, maps, tiles);
  }
}

constexpr unsigned kFinishColumns = 32, kFinishRows = 32;

// The pieces' sums in the order of a tree that depends on their number alone.
__global__ void __launch_bounds__(kFinishColumns* kFinishRows)
    finish_sums_kernel(const float* partial, std::size_t pieces, std::size_t columns,
                       AddToGradient finish) {
  __shared__ double totals[kFinishRows][kFinishColumns];
  const std::size_t column = std::size_t{blockIdx.x} * kFinishColumns + threadIdx.x;
  double sum = 0.0;
  if (column < columns) {
#pragma unroll 4
    for (std::size_t piece = threadIdx.y; piece < pieces; piece += kFinishRows) {
      sum += static_cast<double>(partial[piece * columns + column]);
    }
  }
  totals[threadIdx.y][threadIdx.x] = sum;
  for (unsigned half = kFinishRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      totals[threadIdx.y][threadIdx.x] += totals[threadIdx.y + half][threadIdx.x];
  }
  if (threadIdx.y == 0 && column < columns) finish(column, totals[0][threadIdx.x]);
}

struct DeviceFacts {
  int major = 0, minor = 0, processors = 0;
};

DeviceFacts facts_of(int device) {
  DeviceFacts facts;
  HCTR_TRY(cudaDeviceGetAttribute(&facts.major, cudaDevAttrComputeCapabilityMajor, device));
  HCTR_TRY(cudaDeviceGetAttribute(&facts.minor, cudaDevAttrComputeCapabilityMinor, device));
  HCTR_TRY(cudaDeviceGetAttribute(&facts.processors, cudaDevAttrMultiProcessorCount, device));
  return facts;
}

}  // namespace

bool try_masked_product(const OpContext& context, const MaskedProduct& p) {
  for (const Matrix* m : {&p.a, &p.w, &p.x, &p.dx}) {
    if (!maps_as_tensor(*m) || m->dtype != p.a.dtype || m->rows == 0 || m->columns == 0) {
      return false;
    }
  }
  const Tiles tiles{static_cast<std::uint32_t>(p.dx.rows), static_cast<std::uint32_t>(p.dx.columns),
                    static_cast<std::uint32_t>(p.a.columns)};
  // Up to a third of the tiles' columns may lie beyond dx, before a plain product and a pass of its
  // own for the mask win.
  if (p.dx.columns % 2 != 0 || 3 * p.dx.columns < 2 * tiles.across() * kTileColumns) return false;
  const DeviceFacts facts = facts_of(context.device.index);
  if (facts.major != 9 || facts.minor != 0) return false;
  const std::size_t pieces = 2 * tiles.down();
  CublasLt& lt = cublas_lt(context);
  if (p.sums != nullptr && pieces * p.dx.columns * sizeof(float) > lt.workspace_bytes()) {
    return false;
  }
  auto* const partial = p.sums != nullptr ? static_cast<float*>(lt.workspace()) : nullptr;
  const Maps maps{tensor_map(p.a, kTileRows), tensor_map(p.w, kTileColumns),
                  tensor_map(p.x, kTileRows), tensor_map(p.dx, kTileRows)};
  const auto blocks =
      std::min<std::uint32_t>(static_cast<std::uint32_t>(facts.processors), tiles.count());
  static_assert(sizeof(TileTickets) <= CublasLt::kCounterBytes);
  const auto run = [&](auto kernel) {
    launch(context, "linear_bwd masked dx", dim3(blocks), dim3(kBlock), kSharedBytes, kernel, maps,
           tiles, partial, static_cast<TileTickets*>(lt.counters()));
  };
  p.a.dtype == TensorScalarType::BFloat16 ? run(&masked_product_kernel<BFloat16>)
                                          : run(&masked_product_kernel<Float16>);
  if (p.sums != nullptr) {
    const auto grid = static_cast<unsigned>((p.dx.columns + kFinishColumns - 1) / kFinishColumns);
    launch(context, "linear_bwd db below", dim3(grid), dim3(kFinishColumns, kFinishRows), 0,
           &finish_sums_kernel, partial, pieces, p.dx.columns, AddToGradient{p.sums, p.overwrite});
  }
  return true;
}

}  // namespace hugectr::cuda
