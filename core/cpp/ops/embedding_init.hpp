// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/base/random.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// Four neighbouring columns (column / 4 = group) of a new row: random bits that depend on the
/// arguments only, never on the row's number, the device count or the time of insertion.
HCTR_HD inline Philox4 initial_bits(std::uint64_t seed, std::uint64_t table, std::uint32_t slot,
                                    std::uint64_t widened_key, std::uint32_t group) {
  return philox4x32(mix_key(seed, mix_key(table, slot)), widened_key, group);
}

/// Column c of a new row of d that says where a key stands ("Attention Is All You Need", 3.5):
///   even c: sin(key / 10000^(c / d)), odd c: cos(key / 10000^((c - 1) / d))
HCTR_HD inline float sinusoidal_value(std::uint64_t widened_key, std::size_t c, std::size_t d) {
  constexpr double kLogBase = 9.210340371976184;  // of 10000
  const double pair = static_cast<double>(c - c % 2) / static_cast<double>(d);
  const double angle = static_cast<double>(widened_key) * std::exp(-kLogBase * pair);
  return static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
}

/// Content of rows [first, first + count), or of those that `rows` names, whatever was there:
///   weights[row, c] = symmetric_float(bits of column c, bound of the row's slot)
///                     sinusoidal: sinusoidal_value(key, c, columns)
///   of which c counts from first_column: a device may have some of a row's columns
///   state s of row, c = initial_states[s];  last_step[row] = 1
///
/// row_keys (R) uint32 or int64; row_slots (R) uint32 or empty (slot 0); weights (R, d) float32,
/// bfloat16 (rounded to nearest even) or empty (left alone); states (R, d) or (R, 1) float32 each,
/// initial_states one number a state; last_step (R) int64 or empty. bounds: one for every slot, or
/// a single one for all. rows (count) uint32 below R, each once, or kNoRow, which is passed over;
/// or empty; with rows first is 0. first_column: a multiple of 4; columns: of the whole row, 0: d.
/// until (1) int64, on the device, or empty: rows from that number on are passed over, for who does
/// not know yet how many there are; then no rows are named and none have places.
/// births (R) uint32 or empty: births[row] = birth. places (R) uint32 or empty: row r lies at place
/// places[r] - 1 of weights, states and last_step, which then have any number of places.
/// Overwrites. Deterministic.
struct HCTR_API EmbeddingInit {
  static constexpr const char* kName = "embedding_init";
  static constexpr const char* kSeveralName = "several_embedding_init";
  TensorRef rows, row_keys, row_slots, places, until, weights, last_step, births;
  std::vector<TensorRef> states;
  std::int64_t first = 0, count = 0, birth = 0;
  std::int64_t first_column = 0, columns = 0;
  std::uint64_t seed = 0, table = 0;
  bool sinusoidal = false;
  std::vector<double> bounds{0.05};
  std::vector<double> initial_states;

  void visit(OpVisitor& v) {
    v.optional("rows", Access::In, rows);
    v.tensor("row_keys", Access::In, row_keys);
    v.optional("row_slots", Access::In, row_slots);
    v.optional("places", Access::In, places);
    v.optional("until", Access::In, until);
    v.optional("weights", Access::InOut, weights);
    v.optional("last_step", Access::InOut, last_step);
    v.tensors("states", Access::InOut, states);
    v.optional("births", Access::InOut, births);
    v.attribute("first", first);
    v.attribute("count", count);
    v.attribute("birth", birth);
    v.attribute("first_column", first_column);
    v.attribute("columns", columns);
    v.attribute("seed", seed);
    v.attribute("table", table);
    v.attribute("sinusoidal", sinusoidal);
    v.attribute("bounds", bounds);
    v.attribute("initial_states", initial_states);
  }
  void check() const;
};

}  // namespace hugectr
