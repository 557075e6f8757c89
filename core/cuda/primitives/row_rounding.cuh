// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/stochastic_rounding.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/loops/row_rounding.hpp"
#include "core/cuda/primitives/raw_pack.cuh"

/// Rows of a table as updates load and store them: float32 as it is; bfloat16 widened, and rounded
/// by row, step and column (core/cpp/base/stochastic_rounding.hpp). Of float32 nothing is left of
/// all this when it is compiled.
namespace hugectr::cuda {

/// W numbers of a row as they were loaded.
template <int W, class Weight>
struct KeptPack {
  RawPack<W, Weight> raw;
  static __device__ KeptPack load(const Weight* p) { return {RawPack<W, Weight>::load(p)}; }
  __device__ Pack<float, W> widened() const {
    Pack<float, W> wide;
#pragma unroll
    for (int k = 0; k < W; ++k) wide.v[k] = raw[k];
    return wide;
  }
};
template <int W>
struct KeptPack<W, float> {
  Pack<float, W> pack;
  static __device__ KeptPack load(const float* p) { return {load_pack<W>(p)}; }
  __device__ const Pack<float, W>& widened() const { return pack; }
};

/// step_stream() of a row.
template <class Weight>
struct RowStream {
  std::uint64_t bits;
};
template <>
struct RowStream<float> {};

/// What the rows of an update are rounded by.
template <class Weight>
struct RoundedBy {
  const std::uint64_t* streams;  ///< step_stream() of the row of each run
  unsigned first_column;         ///< of the whole row, a multiple of 4

  __device__ RowStream<Weight> stream(std::size_t run) const { return {streams[run]}; }
  /// p[k] = w[k], which are columns `column` + k: W is 1, or 4 and `column` a multiple of it.
  template <int W>
  __device__ void store(Weight* p, unsigned column, RowStream<Weight> stream,
                        const Pack<float, W>& w) const {
    static_assert(W == 1 || W == 4);
    const unsigned whole = first_column + column;
    const std::uint64_t random = rounding_bits(stream.bits, whole / 4) >> 16 * (whole % 4);
    Pack<Weight, W> kept;
#pragma unroll
    for (int k = 0; k < W; ++k) {
      kept.v[k] = round_stochastically(w.v[k], static_cast<std::uint32_t>(random >> 16 * k));
    }
    store_pack<W>(p, kept);
  }
};
template <>
struct RoundedBy<float> {
  __device__ RowStream<float> stream(std::size_t) const { return {}; }
  template <int W>
  __device__ void store(float* p, unsigned, RowStream<float>, const Pack<float, W>& w) const {
    store_pack<W>(p, w);
  }
};

/// A RowRounding as kernels read it.
struct RowIdentities {
  const std::uint32_t* numbers;  ///< or null: a row is its number
  const void* keys;
  const std::uint32_t* slots;  ///< or null: 0
  bool wide;                   ///< int64 keys
  std::uint64_t seed, table;

  explicit RowIdentities(const RowRounding& by)
      : numbers(by.numbers.empty() ? nullptr : by.numbers.ptr<std::uint32_t>()),
        keys(by.row_keys.data),
        slots(by.row_slots.empty() ? nullptr : by.row_slots.ptr<std::uint32_t>()),
        wide(by.row_keys.dtype == TensorScalarType::Int64),
        seed(by.seed),
        table(by.table) {}

  /// step_stream() of the i-th row.
  __device__ std::uint64_t stream(std::size_t i, std::int64_t step) const {
    const std::size_t number = numbers ? numbers[i] : i;
    const std::uint64_t key = wide ? widen_key(static_cast<const std::int64_t*>(keys)[number])
                                   : widen_key(static_cast<const std::uint32_t*>(keys)[number]);
    return step_stream(row_stream(seed, table, slots ? slots[number] : 0, key), step);
  }
};

}  // namespace hugectr::cuda
