// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_init.hpp"

#include <algorithm>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

void draw_row(float* __restrict row, std::size_t d, const EmbeddingInit& op, std::uint32_t slot,
              std::uint64_t key, float bound) {
  const auto first_group = static_cast<std::size_t>(op.first_column) / 4;
  for (std::size_t c = 0; c < d; c += 4) {
    const Philox4 bits =
        initial_bits(op.seed, op.table, slot, key, static_cast<std::uint32_t>(first_group + c / 4));
    for (std::size_t k = 0; k < std::min<std::size_t>(4, d - c); ++k) {
      row[c + k] = symmetric_float(bits.x[k], bound);
    }
  }
}

void wave_row(float* __restrict row, std::size_t d, const EmbeddingInit& op, std::uint64_t key) {
  const auto first = static_cast<std::size_t>(op.first_column);
  const std::size_t columns = op.columns > 0 ? static_cast<std::size_t>(op.columns) : d;
  for (std::size_t c = 0; c < d; ++c) row[c] = sinusoidal_value(key, first + c, columns);
}

/// Row `place` of weights; made by make(float* row).
template <class F>
void write_row(const TensorRef& weights, std::size_t place, std::vector<float>& values,
               const F& make) {
  if (weights.dtype == TensorScalarType::Float32) return make(weights.row<float>(place));
  values.resize(weights.shape[1]);
  make(values.data());
  std::transform(values.begin(), values.end(), weights.row<BFloat16>(place),
                 [](float value) { return to_bfloat16(value); });
}

/// [begin, end) in the arrays that are indexed by place: one after the other, or a row.
template <class F>
void for_places(const EmbeddingInit& op, std::size_t begin, std::size_t end, const F& f) {
  if (op.places.empty()) return f(begin, end);
  for (std::size_t row = begin; row < end; ++row) {
    const std::size_t place = op.places.ptr<std::uint32_t>()[row] - std::size_t{1};
    f(place, place + 1);
  }
}

template <class Key>
void init_rows(const EmbeddingInit& op, std::size_t begin, std::size_t end) {
  const Key* keys = op.row_keys.ptr<Key>();
  const std::uint32_t* slots = op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>();
  const std::uint32_t* places = op.places.empty() ? nullptr : op.places.ptr<std::uint32_t>();
  if (!op.weights.empty()) {
    const std::size_t d = op.weights.shape[1];
    std::vector<float> values;  // of a row that is rounded
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t place = places ? places[row] - std::size_t{1} : row;
      write_row(op.weights, place, values, [&](float* weights) {
        if (op.sinusoidal) return wave_row(weights, d, op, widen_key(keys[row]));
        const std::uint32_t slot = slots ? slots[row] : 0;
        const double bound = op.bounds.size() == 1 ? op.bounds[0] : op.bounds[slot];
        draw_row(weights, d, op, slot, widen_key(keys[row]), static_cast<float>(bound));
      });
    }
  }
  for (std::size_t s = 0; s < op.states.size(); ++s) {
    const TensorRef& state = op.states[s];
    for_places(op, begin, end, [&](std::size_t first, std::size_t last) {
      std::fill(state.row<float>(first), state.row<float>(first) + (last - first) * state.shape[1],
                static_cast<float>(op.initial_states[s]));
    });
  }
  if (!op.last_step.empty()) {
    for_places(op, begin, end, [&](std::size_t first, std::size_t last) {
      std::fill(op.last_step.ptr<std::int64_t>() + first, op.last_step.ptr<std::int64_t>() + last,
                1);
    });
  }
  if (!op.births.empty()) {
    std::fill(op.births.ptr<std::uint32_t>() + begin, op.births.ptr<std::uint32_t>() + end,
              static_cast<std::uint32_t>(op.birth));
  }
}

/// The rows that are named, one by one.
template <class Key>
void init_named_rows(const EmbeddingInit& op, std::size_t begin, std::size_t end) {
  const std::uint32_t* rows = op.rows.ptr<std::uint32_t>();
  for (std::size_t i = begin; i < end; ++i) {
    if (rows[i] != kNoRow) init_rows<Key>(op, rows[i], rows[i] + std::size_t{1});
  }
}

/// How many of `count` there are.
std::size_t rows_to_write(const EmbeddingInit& op) {
  if (op.until.empty()) return static_cast<std::size_t>(op.count);
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(*op.until.ptr<std::int64_t>() - op.first, 0, op.count));
}

void embedding_init_kernel(const OpContext& context, const EmbeddingInit& op) {
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    const auto first = static_cast<std::size_t>(op.first);
    parallel_for(*context.pool, rows_to_write(op), 512, [&](std::size_t begin, std::size_t end) {
      if (op.rows.empty()) {
        init_rows<Key>(op, first + begin, first + end);
      } else {
        init_named_rows<Key>(op, begin, end);
      }
    });
  });
}

const OpRegistration<EmbeddingInit> embedding_init_cpu{DeviceType::Cpu, &embedding_init_kernel};
const SeveralRegistration<EmbeddingInit> several_embedding_init_cpu{DeviceType::Cpu};

}  // namespace

void EmbeddingInit::check() const {
  with_key_type(row_keys.dtype, [](auto) {});
  HCTR_CHECK(first >= 0 && count >= 0, kName, ": rows ", first, " + ", count, " are negative");
  // Of named rows nothing is known but that there are as many.
  const std::size_t rows =
      this->rows.empty() ? static_cast<std::size_t>(first + count) : row_keys.size();
  if (!this->rows.empty()) {
    check_array(kName, "rows", this->rows, TensorScalarType::UInt32,
                static_cast<std::size_t>(count));
    HCTR_CHECK(first == 0, kName, ": first is ", first, " where rows are named");
  }
  if (!until.empty()) {
    check_array(kName, "until", until, TensorScalarType::Int64, 1);
    HCTR_CHECK(this->rows.empty() && places.empty(), kName,
               ": rows that are named, or have places, have no end to be known later");
  }
  if (!births.empty())
    check_array_at_least(kName, "births", births, TensorScalarType::UInt32, rows);
  check_array_at_least(kName, "row_keys", row_keys, row_keys.dtype, rows);
  if (!row_slots.empty()) {
    check_array_at_least(kName, "row_slots", row_slots, TensorScalarType::UInt32, rows);
  }
  if (!places.empty())
    check_array_at_least(kName, "places", places, TensorScalarType::UInt32, rows);
  // Of places nothing is known but that they are there.
  const std::size_t there = places.empty() ? rows : 0;
  if (!last_step.empty()) {
    check_array_at_least(kName, "last_step", last_step, TensorScalarType::Int64, there);
  }
  const auto check_rows = [&](const char* name, const TensorRef& ref, bool may_be_bfloat16) {
    const bool fits = ref.dtype == TensorScalarType::Float32 ||
                      (may_be_bfloat16 && ref.dtype == TensorScalarType::BFloat16);
    HCTR_CHECK(fits && ref.shape.size() == 2 && ref.shape[0] >= there && ref.contiguous(), kName,
               ": ", name, " has shape ", to_string(ref.shape), " of ", to_string(ref.dtype),
               ", must be (>= ", there, ", d) float32", may_be_bfloat16 ? " or bfloat16" : "");
  };
  if (!weights.empty()) {
    check_rows("weights", weights, true);
    const auto end = static_cast<std::size_t>(first_column) + weights.shape[1];
    HCTR_CHECK(first_column >= 0 && first_column % 4 == 0 &&
                   (columns == 0 || end <= static_cast<std::size_t>(columns)),
               kName, ": first_column ", first_column, " must be a multiple of 4, and ", end,
               " columns no more than ", columns);
  }
  for (const TensorRef& state : states) check_rows("a state", state, false);
  HCTR_CHECK(initial_states.size() == states.size(), kName, ": ", initial_states.size(),
             " initial_states for ", states.size(), " states");
  HCTR_CHECK(!bounds.empty() && (bounds.size() == 1 || !row_slots.empty()), kName,
             ": one bound a slot needs row_slots");
}

}  // namespace hugectr
