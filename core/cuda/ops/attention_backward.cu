// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/ops/attention_tiles.cuh"

namespace hugectr::cuda {
namespace {

template <class T>
struct TileGradients {
  Rows<const T> o, dy;
  Rows<T> dq, dk, dv;
  const float* lse;
};

/// What a query's row is to every key: its lse, in powers of two, and its delta. [head][query].
struct QueryStatistics {
  float *lse, *delta;
};

/// Sum of the products of two words of two numbers each.
template <class T>
__device__ float dot_of_two(unsigned a, unsigned b) {
  const auto half = [](unsigned word) { return T{static_cast<std::uint16_t>(word)}; };
  return widen(half(a)) * widen(half(b)) + widen(half(a >> 16)) * widen(half(b >> 16));
}

// What becomes of scores s and dp: the shares p, and their gradients. A pair that is not there has
// none of both.
struct PairGradient {
  float scale;  // of a score, to powers of two
  __device__ void operator()(float& score, float& gradient, float penalty, float lse, float delta,
                             bool there) const {
    score = there ? exp2_of(score * scale - penalty - lse) : 0.0f;
    gradient = score * (gradient - delta);
  }
};

// dq of 16 queries of one head, all keys in shared memory; leaves the statistics of the queries.
template <class T, int kDim>
__device__ void query_tile(const TileProblem<T>& in, const TileGradients<T>& out,
                           const TileBlock& block, unsigned head, unsigned first, const T* keys,
                           const T* values, const QueryStatistics& statistics) {
  const unsigned lane = block.lane, g = block.g, t = block.t;
  const unsigned column = (block.first_head + head) * kDim;
  LeftRows<kDim> q, dy, o;
  q.load(in.q.at(block.sample, column), in.width, first, in.queries, g, t);
  dy.load(out.dy.at(block.sample, column), in.width, first, in.queries, g, t);
  o.load(out.o.at(block.sample, column), in.width, first, in.queries, g, t);
  const float* all_lse =
      out.lse +
      (static_cast<std::size_t>(block.sample) * in.heads + block.first_head + head) * in.queries;
  float delta[2] = {}, lse[2];
#pragma unroll
  for (unsigned row = 0; row < 2; ++row) {
#pragma unroll
    for (int i = 0; i < kDim / 16; ++i) {
      delta[row] += dot_of_two<T>(dy.words[i][row], o.words[i][row]) +
                    dot_of_two<T>(dy.words[i][row + 2], o.words[i][row + 2]);
    }
    delta[row] = quad_sum(delta[row]);
    const unsigned query = first + g + 8 * row;
    lse[row] = query < in.queries ? all_lse[query] * kLog2E : 0.0f;
    if (t == 0) {
      const unsigned at = head * whole_tiles(in.queries) + query;
      statistics.lse[at] = lse[row];
      statistics.delta[at] = delta[row];
    }
  }
  const PairGradient pair{in.scale * kLog2E};
  float sums[kDim / 8][4] = {};
  for (unsigned key = 0; key < whole_tiles(in.keys); key += kTile) {
    const unsigned at = key * in.stride + head * kDim;
    Tile p = multiply_rows<T>(q, keys + at, in.stride, lane);
    Tile ds = multiply_rows<T>(dy, values + at, in.stride, lane);
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned row = e / 2, low = key + 2 * t + e % 2, high = low + 8;
      const unsigned query = first + g + 8 * row;
      pair(p.low[e], ds.low[e], in.penalty(block.sample, query, low), lse[row], delta[row],
           low < in.keys);
      pair(p.high[e], ds.high[e], in.penalty(block.sample, query, high), lse[row], delta[row],
           high < in.keys);
    }
    add_product<T, kDim>(sums, ds, keys + at, in.stride, lane);
  }
  store_rows<T, kDim>(out.dq.at(block.sample, column), in.width, first, in.queries, g, t, sums,
                      in.scale, in.scale);
}

// dk and dv of 16 keys of one head: the same with the sides changed, all queries in shared memory.
template <class T, int kDim>
__device__ void key_tile(const TileProblem<T>& in, const TileGradients<T>& out,
                         const TileBlock& block, unsigned head, unsigned first, const T* queries,
                         const T* dys, const QueryStatistics& statistics) {
  const unsigned lane = block.lane, g = block.g, t = block.t;
  const unsigned column = (block.first_head + head) * kDim;
  LeftRows<kDim> k, v;
  k.load(in.k.at(block.sample, column), in.width, first, in.keys, g, t);
  v.load(in.v.at(block.sample, column), in.width, first, in.keys, g, t);
  const float* lse = statistics.lse + head * whole_tiles(in.queries);
  const float* delta = statistics.delta + head * whole_tiles(in.queries);
  const PairGradient pair{in.scale * kLog2E};
  float dk[kDim / 8][4] = {}, dv[kDim / 8][4] = {};
  for (unsigned query = 0; query < whole_tiles(in.queries); query += kTile) {
    const unsigned at = query * in.stride + head * kDim;
    Tile p = multiply_rows<T>(k, queries + at, in.stride, lane);
    Tile ds = multiply_rows<T>(v, dys + at, in.stride, lane);
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned key = first + g + 8 * (e / 2), low = query + 2 * t + e % 2, high = low + 8;
      pair(p.low[e], ds.low[e], in.penalty(block.sample, low, key), lse[low], delta[low],
           low < in.queries);
      pair(p.high[e], ds.high[e], in.penalty(block.sample, high, key), lse[high], delta[high],
           high < in.queries);
    }
    add_product<T, kDim>(dv, p, dys + at, in.stride, lane);
    add_product<T, kDim>(dk, ds, queries + at, in.stride, lane);
  }
  store_rows<T, kDim>(out.dk.at(block.sample, column), in.width, first, in.keys, g, t, dk, in.scale,
                      in.scale);
  store_rows<T, kDim>(out.dv.at(block.sample, column), in.width, first, in.keys, g, t, dv, 1.0f,
                      1.0f);
}

// Scores are made twice, once for the sums along keys and once for those along queries, so that
// every sum has one owner. Floor: 14 b m n width flops, two exponentials a pair and head; reads q,
// k, v, o, dy, writes dq, dk, dv.
template <class T, int kDim>
__global__ void __launch_bounds__(kTileThreads)
    attention_gradients(TileProblem<T> in, TileGradients<T> out, unsigned rows) {
  extern __shared__ uint4 shared[];
  const TileBlock block = tile_block(in);
  const unsigned columns = in.block_heads * kDim, first_column = block.first_head * kDim;
  T* left = reinterpret_cast<T*>(shared);
  T* right = left + rows * in.stride;
  const QueryStatistics statistics{reinterpret_cast<float*>(right + rows * in.stride),
                                   reinterpret_cast<float*>(right + rows * in.stride) +
                                       in.block_heads * whole_tiles(in.queries)};

  load_tiles(left, in.stride, in.k.at(block.sample, first_column), in.width, in.keys, columns);
  load_tiles(right, in.stride, in.v.at(block.sample, first_column), in.width, in.keys, columns);
  __syncthreads();
  const unsigned query_units = whole_tiles(in.queries) / kTile * in.block_heads;
  for (unsigned unit = block.warp; unit < query_units; unit += kTileWarps) {
    query_tile<T, kDim>(in, out, block, unit % in.block_heads, unit / in.block_heads * kTile, left,
                        right, statistics);
  }
  __syncthreads();

  load_tiles(left, in.stride, in.q.at(block.sample, first_column), in.width, in.queries, columns);
  load_tiles(right, in.stride, out.dy.at(block.sample, first_column), in.width, in.queries,
             columns);
  __syncthreads();
  const unsigned key_units = whole_tiles(in.keys) / kTile * in.block_heads;
  for (unsigned unit = block.warp; unit < key_units; unit += kTileWarps) {
    key_tile<T, kDim>(in, out, block, unit % in.block_heads, unit / in.block_heads * kTile, left,
                      right, statistics);
  }
}

template <class T, int kDim>
bool run(const OpContext& context, const AttentionBwd& op) {
  const TileProblem<T> problem(op);
  const unsigned rows = whole_tiles(std::max(problem.queries, problem.keys));
  const std::size_t bytes =
      2 * std::size_t{rows} * problem.stride * sizeof(T) +
      2 * std::size_t{problem.block_heads} * whole_tiles(problem.queries) * sizeof(float);
  if (bytes > shared_bytes_of_block()) return false;
  launch(context, AttentionBwd::kName, dim3(static_cast<unsigned>(op.q.rows()) * problem.groups()),
         dim3(kTileThreads), bytes, &attention_gradients<T, kDim>, problem,
         TileGradients<T>{rows_of<const T>(op.o), rows_of<const T>(op.dy), rows_of<T>(op.dq),
                          rows_of<T>(op.dk), rows_of<T>(op.dv), op.lse.ptr<float>()},
         rows);
  return true;
}

}  // namespace

bool attention_backward_on_tiles(const OpContext& context, const AttentionBwd& op) {
  for (const TensorRef* ref : {&op.q, &op.k, &op.v, &op.o, &op.dy, &op.dq, &op.dk, &op.dv}) {
    if (!tiles_fit(*ref)) return false;
  }
  return with_tiles(op, [&]<class T, int kDim>(T, std::integral_constant<int, kDim>) {
    return run<T, kDim>(context, op);
  });
}

}  // namespace hugectr::cuda
