// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_init.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/primitives/bucket_lanes.cuh"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/real.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Everything that decides the content of rows but their keys and slots.
struct InitialRows {
  const std::uint32_t* rows;    // those that are named; null: first, first + 1, ...
  const std::uint32_t* places;  // of row r its place + 1; null: r
  std::size_t first, d;
  std::size_t first_column, columns;  // of the whole row
  std::uint64_t seed, table;
  const float* bounds;  // one a slot, or null: `bound` for all
  float bound;
  bool sinusoidal;
  const std::int64_t* until;  // rows from this one on are passed over; null: none are

  __device__ std::size_t row(std::size_t i) const { return rows ? rows[i] : first + i; }
  __device__ std::size_t end() const {
    return until ? static_cast<std::size_t>(*until) : static_cast<std::size_t>(-1);
  }
  __device__ std::size_t place(std::size_t row) const { return places ? places[row] - 1 : row; }
};

// Blocks for rows of which, where their end is known later, there mostly are none.
unsigned blocks_until(const std::int64_t* until, unsigned for_all) {
  constexpr unsigned kFew = 16;
  return until ? std::min(kFew, for_all) : for_all;
}

// What is written, and how: each is a kernel of its own, because sines take so many registers that
// rows which are drawn would take twice the time.
enum class Values { DrawnPacks, Drawn, Sinusoidal };

// One table's part of a launch that draws rows.
template <class Key, class Weight>
struct Draw {
  BucketLanes lanes;
  InitialRows init;
  const Key* keys;
  const std::uint32_t* slots;  // or null: 0
  Weight* weights;

  Values values() const {
    if (init.sinusoidal) return Values::Sinusoidal;
    return init.d % 4 == 0 && packs_fit(weights, init.d, 4) ? Values::DrawnPacks : Values::Drawn;
  }
  unsigned blocks() const { return blocks_until(init.until, lanes.grid().x); }
};

// A few threads share a row; each draws four columns at a time. Moves 4 d bytes a row.
template <Values kValues, class Key, class Weight>
__device__ void draw(const BucketLanes& lanes, const InitialRows& init,
                     const Key* __restrict__ keys, const std::uint32_t* __restrict__ slots,
                     Weight* __restrict__ weights) {
  const std::size_t end = init.end();
  lanes.for_each([&](std::size_t i, unsigned lane) {
    const std::size_t row = init.row(i);
    if (row >= end || (init.rows && row == kNoRow)) return;
    const std::size_t place = init.place(row);
    const std::uint32_t slot = slots ? slots[row] : 0;
    const float bound = init.bounds ? init.bounds[slot] : init.bound;
    const std::uint64_t key = widen_key(keys[row]);
    for (std::size_t c = 4 * lane; c < init.d; c += 4 * lanes.lanes()) {
      Pack<float, 4> values;
      if constexpr (kValues == Values::Sinusoidal) {
        for (int k = 0; k < 4; ++k) {
          values.v[k] = sinusoidal_value(key, init.first_column + c + k, init.columns);
        }
      } else {
        const Philox4 bits = initial_bits(init.seed, init.table, slot, key,
                                          static_cast<std::uint32_t>((init.first_column + c) / 4));
#pragma unroll
        for (int k = 0; k < 4; ++k) values.v[k] = symmetric_float(bits.x[k], bound);
      }
      Weight* to = weights + place * init.d + c;
      if constexpr (kValues == Values::DrawnPacks) {
        store_narrowed<4>(to, values);
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if (c + k < init.d) to[k] = narrow<Weight>(values.v[k]);
        }
      }
    }
  });
}

template <Values kValues, class Key, class Weight>
__global__ void draw_rows_kernel(Draw<Key, Weight> a) {
  draw<kValues>(a.lanes, a.init, a.keys, a.slots, a.weights);
}
template <Values kValues, class Key, class Weight>
__global__ void draw_many_kernel(const __grid_constant__ Many<Draw<Key, Weight>> many) {
  const Draw<Key, Weight>& a = many.mine();
  draw<kValues>(a.lanes, a.init, a.keys, a.slots, a.weights);
}

// Rows of d numbers, one after the other.
template <class T>
struct Fill {
  T* to;
  std::size_t rows, d;
  T value;
  std::size_t first;          // the number of the first row
  const std::int64_t* until;  // as in InitialRows

  unsigned blocks() const { return blocks_until(until, grid_for(rows * d, kThreads)); }
};

template <class T>
__device__ void fill_all(const Fill<T>& a) {
  std::size_t rows = a.rows;
  if (a.until) {
    const auto end = static_cast<std::size_t>(*a.until);
    rows = end < a.first ? 0 : end - a.first < rows ? end - a.first : rows;
  }
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < rows * a.d; i += step) {
    a.to[i] = a.value;
  }
}

template <class T>
__global__ void fill_kernel(Fill<T> a) {
  fill_all(a);
}
template <class T>
__global__ void fill_many_kernel(const __grid_constant__ Many<Fill<T>> many) {
  fill_all(many.mine());
}

// Numbers of the rows of an op that are in order: `array` has `d` a row.
template <class T>
Fill<T> fill_of(const EmbeddingInit& op, const TensorRef& array, std::size_t d, T value) {
  const auto first = static_cast<std::size_t>(op.first);
  return {array.ptr<T>() + first * d,
          static_cast<std::size_t>(op.count),
          d,
          value,
          first,
          op.until.empty() ? nullptr : op.until.ptr<std::int64_t>()};
}

// A few threads share a row.
template <class T>
__global__ void fill_rows_kernel(BucketLanes lanes, InitialRows init, T* to, std::size_t d,
                                 T value) {
  lanes.for_each([&](std::size_t i, unsigned lane) {
    const std::size_t row = init.row(i);
    if (init.rows && row == kNoRow) return;
    const std::size_t place = init.place(row);
    for (std::size_t c = lane; c < d; c += lanes.lanes()) to[place * d + c] = value;
  });
}

template <class T>
void fill_rows(const OpContext& context, const EmbeddingInit& op, const TensorRef& places, T* to,
               std::size_t d, T value) {
  const auto count = static_cast<std::size_t>(op.count);
  const BucketLanes lanes(count, count * d);
  InitialRows init{};
  init.rows = op.rows.empty() ? nullptr : op.rows.ptr<std::uint32_t>();
  init.places = places.empty() ? nullptr : places.ptr<std::uint32_t>();
  init.first = static_cast<std::size_t>(op.first);
  launch(context, EmbeddingInit::kName, lanes.grid(), lanes.block(), 0, &fill_rows_kernel<T>, lanes,
         init, to, d, value);
}

template <class T>
void fill(const OpContext& context, const Fill<T>& args) {
  launch(context, EmbeddingInit::kName, dim3(args.blocks()), dim3(kThreads), 0, &fill_kernel<T>,
         args);
}

// Bounds of slots as float, as the CPU uses them; copied in the pieces that a stream takes from
// memory that goes away.
void copy_bounds(const OpContext& context, const std::vector<double>& bounds, float* to) {
  constexpr std::size_t kPiece = 64;
  const std::vector<float> host(bounds.begin(), bounds.end());
  for (std::size_t at = 0; at < host.size(); at += kPiece) {
    context.stream->copy_scalars(to + at, host.data() + at,
                                 std::min(kPiece, host.size() - at) * sizeof(float));
  }
}

// Bounds to copy to the device: one for all goes along as it is.
std::size_t bounds_to_copy(const EmbeddingInit& op) {
  return op.bounds.size() == 1 ? 0 : op.bounds.size();
}

// `bounds`: where those lie that are copied.
template <class Key, class Weight>
Draw<Key, Weight> draw_of(const EmbeddingInit& op, const float* bounds) {
  const std::size_t d = op.weights.shape[1];
  const auto count = static_cast<std::size_t>(op.count);
  const InitialRows init{op.rows.empty() ? nullptr : op.rows.ptr<std::uint32_t>(),
                         op.places.empty() ? nullptr : op.places.ptr<std::uint32_t>(),
                         static_cast<std::size_t>(op.first),
                         d,
                         static_cast<std::size_t>(op.first_column),
                         op.columns > 0 ? static_cast<std::size_t>(op.columns) : d,
                         op.seed,
                         op.table,
                         bounds_to_copy(op) == 0 ? nullptr : bounds,
                         static_cast<float>(op.bounds[0]),
                         op.sinusoidal,
                         op.until.empty() ? nullptr : op.until.ptr<std::int64_t>()};
  return {BucketLanes(count, count * ((d + 3) / 4)), init, op.row_keys.ptr<Key>(),
          op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>(),
          op.weights.ptr<Weight>()};
}

template <class Key, class Weight>
void draw_rows(const OpContext& context, const EmbeddingInit& op) {
  const Scratch scratch(context, bounds_to_copy(op) * sizeof(float));
  auto* bounds = static_cast<float*>(scratch.data());
  if (bounds_to_copy(op) > 0) copy_bounds(context, op.bounds, bounds);
  const Draw<Key, Weight> args = draw_of<Key, Weight>(op, bounds);
  const auto kernel =
      args.values() == Values::DrawnPacks ? &draw_rows_kernel<Values::DrawnPacks, Key, Weight>
      : args.values() == Values::Drawn    ? &draw_rows_kernel<Values::Drawn, Key, Weight>
                                          : &draw_rows_kernel<Values::Sinusoidal, Key, Weight>;
  launch(context, EmbeddingInit::kName, dim3(args.blocks()), args.lanes.block(), 0, kernel, args);
}

// All but the vectors, of rows that are named or have places.
void fill_one_by_one(const OpContext& context, const EmbeddingInit& op) {
  for (std::size_t s = 0; s < op.states.size(); ++s) {
    fill_rows(context, op, op.places, op.states[s].ptr<float>(), op.states[s].shape[1],
              static_cast<float>(op.initial_states[s]));
  }
  if (!op.births.empty()) {
    fill_rows(context, op, {}, op.births.ptr<std::uint32_t>(), 1,
              static_cast<std::uint32_t>(op.birth));
  }
  if (!op.last_step.empty()) {
    fill_rows<std::int64_t>(context, op, op.places, op.last_step.ptr<std::int64_t>(), 1, 1);
  }
}

bool in_order(const EmbeddingInit& op) { return op.rows.empty() && op.places.empty(); }

// The same of rows in order, of one op or of several.
struct Fills {
  std::vector<Fill<float>> states;
  std::vector<Fill<std::uint32_t>> births;
  std::vector<Fill<std::int64_t>> last_steps;

  void add(const EmbeddingInit& op) {
    for (std::size_t s = 0; s < op.states.size(); ++s) {
      states.push_back(fill_of(op, op.states[s], op.states[s].shape[1],
                               static_cast<float>(op.initial_states[s])));
    }
    if (!op.births.empty()) {
      births.push_back(fill_of(op, op.births, 1, static_cast<std::uint32_t>(op.birth)));
    }
    if (!op.last_step.empty()) {
      last_steps.push_back(fill_of<std::int64_t>(op, op.last_step, 1, 1));
    }
  }
};

void embedding_init(const OpContext& context, const EmbeddingInit& op) {
  if (op.count == 0) return;
  if (!op.weights.empty()) {
    with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
      op.weights.dtype == TensorScalarType::BFloat16 ? draw_rows<Key, BFloat16>(context, op)
                                                     : draw_rows<Key, float>(context, op);
    });
  }
  if (!in_order(op)) return fill_one_by_one(context, op);
  Fills fills;
  fills.add(op);
  for (const auto& each : fills.states) fill(context, each);
  for (const auto& each : fills.births) fill(context, each);
  for (const auto& each : fills.last_steps) fill(context, each);
}

template <Values kValues, class Key, class Weight>
void draw_many(const OpContext& context, const std::vector<Draw<Key, Weight>>& all) {
  using Args = Draw<Key, Weight>;
  std::vector<Args> some;
  for (const Args& args : all) {
    if (args.values() == kValues) some.push_back(args);
  }
  launch_many<Args>(context, EmbeddingInit::kSeveralName, some, dim3(BucketLanes::kThreads),
                    &draw_many_kernel<kValues, Key, Weight>,
                    [](const Args& a) { return a.blocks(); });
}

template <class Key, class Weight>
void draw_those_of(const OpContext& context, const Several<EmbeddingInit>& several) {
  std::size_t count = 0;
  for (const EmbeddingInit& op : several.ops) count += bounds_to_copy(op);
  const Scratch scratch(context, count * sizeof(float));
  auto* bounds = static_cast<float*>(scratch.data());
  std::vector<Draw<Key, Weight>> all;
  for (const EmbeddingInit& op : several.ops) {
    if (op.count == 0 || op.weights.dtype != ScalarTypeOf<Weight>::value ||
        op.row_keys.dtype != ScalarTypeOf<Key>::value) {
      continue;
    }
    if (bounds_to_copy(op) > 0) copy_bounds(context, op.bounds, bounds);
    all.push_back(draw_of<Key, Weight>(op, bounds));
    bounds += bounds_to_copy(op);
  }
  draw_many<Values::DrawnPacks>(context, all);
  draw_many<Values::Drawn>(context, all);
  draw_many<Values::Sinusoidal>(context, all);
}

template <class T>
void fill_many(const OpContext& context, const std::vector<Fill<T>>& all) {
  launch_many<Fill<T>>(context, EmbeddingInit::kSeveralName, all, dim3(kThreads),
                       &fill_many_kernel<T>, [](const Fill<T>& a) { return a.blocks(); });
}

void embedding_inits(const OpContext& context, const Several<EmbeddingInit>& several) {
  draw_those_of<std::uint32_t, float>(context, several);
  draw_those_of<std::int64_t, float>(context, several);
  draw_those_of<std::uint32_t, BFloat16>(context, several);
  draw_those_of<std::int64_t, BFloat16>(context, several);
  Fills fills;
  for (const EmbeddingInit& op : several.ops) {
    if (op.count == 0) continue;
    // Numbers used again, which is rare, or rows in a cache.
    in_order(op) ? fills.add(op) : fill_one_by_one(context, op);
  }
  fill_many(context, fills.states);
  fill_many(context, fills.births);
  fill_many(context, fills.last_steps);
}

const OpRegistration<EmbeddingInit> embedding_init_cuda{DeviceType::Cuda, &embedding_init};
const SeveralRegistration<EmbeddingInit> several_embedding_init_cuda{DeviceType::Cuda,
                                                                     &embedding_inits};

}  // namespace
}  // namespace hugectr::cuda
