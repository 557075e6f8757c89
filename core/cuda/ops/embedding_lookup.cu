// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "core/cpp/ops/embedding_lookup.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cuda/primitives/row_blocks.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kTile = 8;   // neighbouring buckets of a worker
constexpr unsigned kAhead = 4;  // rows under way at once

template <class T>
struct Lookup {
  const std::uint32_t* rows;
  const std::uint32_t* offsets;
  const float* weights;
  const float* scales;  // or null: 1
  T* out;
  std::size_t buckets, d, row_stride;
  std::uint32_t slots;
};

// The keys of a tile lie one after the other, so a worker streams through them, four rows at a
// time, and writes a bucket when its last key is past: one key a bucket keeps as many loads under
// way as ten; the numbers of the next rows are fetched meanwhile. Moves 4 + 4 d bytes a key and
// 4 + size(T) d bytes a bucket.
template <int W, class T>
__global__ void __launch_bounds__(kMaxRowThreads<W>) embedding_lookup_kernel(Lookup<T> a) {
  const std::size_t first = row_worker() * kTile;
  if (first >= a.buckets) return;
  const auto left = static_cast<unsigned>(min(a.buckets - first, std::size_t{kTile}));
  const unsigned column = threadIdx.x * W;
  const float* weights = a.weights + column;

  // What is needed at the end of each bucket, the next one in front.
  std::uint32_t stop[kTile];
  float scale[kTile];
  std::uint32_t i = a.offsets[first];
#pragma unroll
  for (unsigned k = 0; k < kTile; ++k) {
    stop[k] = a.offsets[first + min(k + 1, left)];
    scale[k] = a.scales && k < left ? a.scales[first + k] : 1.0f;
  }
  const std::uint32_t end = stop[kTile - 1];  // of the last bucket there is
  auto slot = static_cast<std::uint32_t>(first % a.slots);
  T* out = a.out + first / a.slots * a.row_stride + slot * a.d + column;

  Pack<float, W> sum{};
  unsigned done = 0;
  const auto finish_bucket = [&] {
#pragma unroll
    for (int k = 0; k < W; ++k) sum.v[k] *= scale[0];
    store_narrowed<W>(out, sum);
    sum = {};
    ++done;
    out += a.d;
    if (++slot == a.slots) {
      slot = 0;
      out += a.row_stride - a.slots * a.d;
    }
#pragma unroll
    for (unsigned k = 0; k + 1 < kTile; ++k) {
      stop[k] = stop[k + 1];
      scale[k] = scale[k + 1];
    }
  };

  std::uint32_t row[kAhead];
  const auto fetch_rows = [&](std::uint32_t at) {
#pragma unroll
    for (unsigned u = 0; u < kAhead; ++u) row[u] = at + u < end ? a.rows[at + u] : kNoRow;
  };
  fetch_rows(i);
  for (; i < end; i += kAhead) {
    const std::uint32_t ahead = min(end - i, kAhead);
    Pack<float, W> x[kAhead];
#pragma unroll
    for (unsigned u = 0; u < kAhead; ++u) {
      x[u] = {};
      if (row[u] != kNoRow) x[u] = load_pack<W>(weights + row[u] * a.d);
    }
    fetch_rows(i + kAhead);
#pragma unroll
    for (unsigned u = 0; u < kAhead; ++u) {
      if (u < ahead) {
        while (i + u >= stop[0]) finish_bucket();  // ends before the tile does: i + u < end
        add_pack(sum, x[u]);
      }
    }
  }
  while (done < left) finish_bucket();
}

template <class T>
void look_up(const OpContext& context, const EmbeddingLookup& op) {
  const std::size_t d = op.out.shape[2], buckets = op.row_offsets.size() - 1;
  const Lookup<T> args{op.rows.ptr<std::uint32_t>(),
                       op.row_offsets.ptr<std::uint32_t>(),
                       op.weights.ptr<float>(),
                       op.scale.empty() ? nullptr : op.scale.ptr<float>(),
                       op.out.ptr<T>(),
                       buckets,
                       d,
                       op.out.row_stride,
                       static_cast<std::uint32_t>(op.out.shape[1])};
  const bool fours = fours_fit(d, d, args.weights) && fours_fit(d, args.row_stride, args.out);
  with_row_width(fours, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const dim3 block = row_block<kWidth>(d);
    const std::size_t tiles = (buckets + kTile - 1) / kTile;
    launch(context, EmbeddingLookup::kName,
           dim3(static_cast<unsigned>((tiles + block.y - 1) / block.y)), block, 0,
           &embedding_lookup_kernel<kWidth, T>, args);
  });
}

void embedding_lookup(const OpContext& context, const EmbeddingLookup& op) {
  const std::size_t d = op.out.shape[2];
  if (op.row_offsets.size() < 2 || d == 0) return;
  HCTR_CHECK(d <= 1024, EmbeddingLookup::kName, ": vectors of ", d, " are longer than 1024");
  with_real_type(op.out.dtype, [&]<class T>(T) { look_up<T>(context, op); });
}

const OpRegistration<EmbeddingLookup> embedding_lookup_cuda{DeviceType::Cuda, &embedding_lookup};

}  // namespace
}  // namespace hugectr::cuda
