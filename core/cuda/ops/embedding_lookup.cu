// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_lookup.hpp"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/raw_pack.cuh"
#include "core/cuda/primitives/row_blocks.cuh"
#include "core/cuda/primitives/vector_stream.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kTile = 8;  // neighbouring buckets of a worker

// Loads under way. Eight of 16 bytes take 88 registers, which is room for 20 warps a
// multiprocessor; four take 64: 32 warps, whose tiles of one key a bucket wait for four loads one
// after the other instead of three. Chosen by calculation: more bytes in the time of a load.
template <int W, class Row>
constexpr unsigned kAhead = W == 8 ? 4 : kVectorsAhead<Row>;

template <class Row, class T>
struct Lookup {
  const std::uint32_t* rows;
  const std::uint32_t* offsets;
  const Row* weights;
  const float* scales;  // or null: 1
  T* out;
  std::size_t buckets, d, row_stride;
  std::uint32_t slots;
};

// The keys of a tile lie one after the other, so a worker streams through them and writes a bucket
// when its last key is past: one key a bucket keeps as many loads under way as ten. Moves
// 4 + size(Row) d bytes a key and 4 + size(T) d bytes a bucket. Four blocks a multiprocessor cost
// rows of 16 bits nothing but two registers; 0 leaves it to the compiler.
template <int W, class Row, class T>
__device__ __forceinline__ void look_up_buckets(const Lookup<Row, T>& a) {
  const std::size_t first = row_worker() * kTile;
  if (first >= a.buckets) return;
  const auto left = static_cast<unsigned>(min(a.buckets - first, std::size_t{kTile}));
  const unsigned column = threadIdx.x * W;
  const Row* weights = a.weights + column;

  // What is needed at the end of each bucket, the next one in front.
  std::uint32_t stop[kTile];
  float scale[kTile];
  const std::uint32_t begin = a.offsets[first];
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

  const auto load = [&](std::uint32_t row) { return RawPack<W, Row>::load(weights + row * a.d); };
  const auto take = [&](std::uint32_t at, const RawPack<W, Row>& row) {
    while (at >= stop[0]) finish_bucket();  // ends before the tile does: at < end
#pragma unroll
    for (int k = 0; k < W; ++k) sum.v[k] += row[k];
  };
  stream_vectors<kAhead<W, Row>>(a.rows, begin, end, load, take);
  while (done < left) finish_bucket();
}

template <int W, class Row, class T>
__global__ void __launch_bounds__(kMaxRowThreads<W>, W == 4 && sizeof(Row) == 2 ? 4 : 0)
    embedding_lookup_kernel(Lookup<Row, T> a) {
  look_up_buckets<W>(a);
}

template <int W, class Row, class T>
__global__ void __launch_bounds__(kMaxRowThreads<W>, W == 4 && sizeof(Row) == 2 ? 4 : 0)
    look_up_many_kernel(const __grid_constant__ Many<Lookup<Row, T>> many) {
  look_up_buckets<W>(many.mine());
}

template <class Row, class T>
Lookup<Row, T> lookup_of(const EmbeddingLookup& op) {
  return {op.rows.ptr<std::uint32_t>(),
          op.row_offsets.ptr<std::uint32_t>(),
          op.weights.ptr<Row>(),
          op.scale.empty() ? nullptr : op.scale.ptr<float>(),
          op.out.ptr<T>(),
          op.row_offsets.size() - 1,
          op.out.shape[2],
          op.out.row_stride,
          static_cast<std::uint32_t>(op.out.shape[1])};
}

/// Calls f(std::integral_constant<int, W>) with what the rows of a lookup can be read by.
template <class Row, class T, class F>
void with_width_of(const Lookup<Row, T>& a, const F& f) {
  const auto fits = [&](std::size_t w) {
    return row_packs_fit(w, a.d, a.d, a.weights) && row_packs_fit(w, a.d, a.row_stride, a.out);
  };
  with_row_width<kWidest<Row, T>>(fits, f);
}

/// Blocks of so many workers.
unsigned blocks_of(std::size_t buckets, unsigned workers) {
  const std::size_t tiles = (buckets + kTile - 1) / kTile;
  return static_cast<unsigned>((tiles + workers - 1) / workers);
}

template <class Row, class T>
void look_up(const OpContext& context, const EmbeddingLookup& op) {
  const Lookup<Row, T> args = lookup_of<Row, T>(op);
  with_width_of(args, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const dim3 block = row_block<kWidth>(args.d);
    launch(context, EmbeddingLookup::kName, dim3(blocks_of(args.buckets, block.y)), block, 0,
           &embedding_lookup_kernel<kWidth, Row, T>, args);
  });
}

/// Those of one vector size and width go together.
template <class Row, class T>
void look_up_all(const OpContext& context, const std::vector<Lookup<Row, T>>& all) {
  std::map<std::pair<std::size_t, int>, std::vector<Lookup<Row, T>>> alike;
  for (const Lookup<Row, T>& args : all) {
    with_width_of(args, [&](auto width) { alike[{args.d, width()}].push_back(args); });
  }
  for (const auto& [key, some] : alike) {
    with_width_of(some.front(), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const dim3 block = row_block<kWidth>(some.front().d);
      launch_many<Lookup<Row, T>>(
          context, EmbeddingLookup::kSeveralName, some, block, &look_up_many_kernel<kWidth, Row, T>,
          [&](const Lookup<Row, T>& a) { return blocks_of(a.buckets, block.y); });
    });
  }
}

/// Whether there is anything to do.
bool has_work(const EmbeddingLookup& op) {
  const std::size_t d = op.out.shape[2];
  HCTR_CHECK(d <= 1024, EmbeddingLookup::kName, ": vectors of ", d, " are longer than 1024");
  return op.row_offsets.size() > 1 && d > 0;
}

void embedding_lookup(const OpContext& context, const EmbeddingLookup& op) {
  if (!has_work(op)) return;
  with_real_type(op.out.dtype, [&]<class T>(T) {
    if (op.weights.dtype == TensorScalarType::Float32) {
      look_up<float, T>(context, op);
    } else if (op.weights.dtype == TensorScalarType::BFloat16) {
      look_up<BFloat16, T>(context, op);
    } else if constexpr (std::is_same_v<T, Float16>) {
      look_up<Float16, Float16>(context, op);
    }
  });
}

template <class Row, class T>
void look_up_those_of(const OpContext& context, const Several<EmbeddingLookup>& several) {
  std::vector<Lookup<Row, T>> all;
  for (const EmbeddingLookup& op : several.ops) {
    if (op.out.dtype != ScalarTypeOf<T>::value || op.weights.dtype != ScalarTypeOf<Row>::value) {
      continue;
    }
    if (has_work(op)) all.push_back(lookup_of<Row, T>(op));
  }
  look_up_all(context, all);
}

void embedding_lookups(const OpContext& context, const Several<EmbeddingLookup>& several) {
  look_up_those_of<float, float>(context, several);
  look_up_those_of<BFloat16, float>(context, several);
  look_up_those_of<BFloat16, Float16>(context, several);
  look_up_those_of<float, Float16>(context, several);
  look_up_those_of<Float16, Float16>(context, several);
  look_up_those_of<float, BFloat16>(context, several);
  look_up_those_of<BFloat16, BFloat16>(context, several);
}

const OpRegistration<EmbeddingLookup> embedding_lookup_cuda{DeviceType::Cuda, &embedding_lookup};
const SeveralRegistration<EmbeddingLookup> several_embedding_lookup_cuda{DeviceType::Cuda,
                                                                         &embedding_lookups};

}  // namespace
}  // namespace hugectr::cuda
