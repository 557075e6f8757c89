// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/ops/attention_tiles.cuh"

namespace hugectr::cuda {
namespace {

constexpr int kStep = 4;  // tiles of keys between two looks at the greatest score

// Floor: 4 b m n width flops and an exponential a pair and head; reads q, k, v, writes o.
template <class T, int kDim>
__global__ void __launch_bounds__(kTileThreads)
    attend_tiles(TileProblem<T> in, Rows<T> o, float* lse) {
  extern __shared__ uint4 shared[];
  const TileBlock block = tile_block(in);
  const unsigned lane = block.lane, g = block.g, t = block.t;
  const unsigned key_rows = whole_tiles(in.keys), columns = in.block_heads * kDim;
  T* keys = reinterpret_cast<T*>(shared);
  T* values = keys + key_rows * in.stride;
  load_tiles(keys, in.stride, in.k.at(block.sample, block.first_head * kDim), in.width, in.keys,
             columns);
  load_tiles(values, in.stride, in.v.at(block.sample, block.first_head * kDim), in.width, in.keys,
             columns);
  __syncthreads();

  const unsigned units = whole_tiles(in.queries) / kTile * in.block_heads;
  for (unsigned unit = block.warp; unit < units; unit += kTileWarps) {
    const unsigned head = unit % in.block_heads, first = unit / in.block_heads * kTile;
    const unsigned column = (block.first_head + head) * kDim;
    LeftRows<kDim> q;
    q.load(in.q.at(block.sample, column), in.width, first, in.queries, g, t);
    float sums[kDim / 8][4] = {};
    float most[2] = {-INFINITY, -INFINITY}, total[2] = {};
    for (unsigned from = 0; from < key_rows; from += kStep * kTile) {
      Tile scores[kStep];
      float now[2] = {most[0], most[1]};
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        const unsigned key = from + i * kTile;
        if (key >= key_rows) break;
        scores[i] = multiply_rows<T>(q, keys + key * in.stride + head * kDim, in.stride, lane);
        for_each_element(scores[i], t, [&](float& score, unsigned row, unsigned place) {
          score = score * (in.scale * kLog2E) -
                  in.penalty(block.sample, first + g + 8 * row, key + place);
          if (key + place >= in.keys) score = -INFINITY;
          now[row] = fmaxf(now[row], score);
        });
      }
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        now[row] = quad_max(now[row]);
        const float keep = exp2_of(most[row] - now[row]);
        total[row] *= keep;
        most[row] = now[row];
#pragma unroll
        for (int i = 0; i < kDim / 8; ++i) {
          sums[i][2 * row] *= keep;
          sums[i][2 * row + 1] *= keep;
        }
      }
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
        const unsigned key = from + i * kTile;
        if (key >= key_rows) break;
        for_each_element(scores[i], t, [&](float& score, unsigned row, unsigned) {
          score = exp2_of(score - most[row]);
          total[row] += score;
        });
        add_product<T, kDim>(sums, scores[i], values + key * in.stride + head * kDim, in.stride,
                             lane);
      }
    }
    total[0] = quad_sum(total[0]);
    total[1] = quad_sum(total[1]);
    store_rows<T, kDim>(o.at(block.sample, column), in.width, first, in.queries, g, t, sums,
                        1.0f / total[0], 1.0f / total[1]);
    if (t != 0) continue;
    float* statistics =
        lse +
        (static_cast<std::size_t>(block.sample) * in.heads + block.first_head + head) * in.queries;
#pragma unroll
    for (unsigned row = 0; row < 2; ++row) {
      const unsigned query = first + g + 8 * row;
      if (query < in.queries) statistics[query] = (most[row] + log2f(total[row])) / kLog2E;
    }
  }
}

template <class T, int kDim>
bool run(const OpContext& context, const AttentionFwd& op) {
  const TileProblem<T> problem(op);
  const std::size_t bytes = 2 * std::size_t{whole_tiles(problem.keys)} * problem.stride * sizeof(T);
  if (bytes > shared_bytes_of_block()) return false;
  launch(context, AttentionFwd::kName, dim3(static_cast<unsigned>(op.q.rows()) * problem.groups()),
         dim3(kTileThreads), bytes, &attend_tiles<T, kDim>, problem, rows_of<T>(op.o),
         op.lse.ptr<float>());
  return true;
}

}  // namespace

bool attention_forward_on_tiles(const OpContext& context, const AttentionFwd& op) {
  for (const TensorRef* ref : {&op.q, &op.k, &op.v, &op.o}) {
    if (!tiles_fit(*ref)) return false;
  }
  return with_tiles(op, [&]<class T, int kDim>(T, std::integral_constant<int, kDim>) {
    return run<T, kDim>(context, op);
  });
}

}  // namespace hugectr::cuda
