// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/sample_screen.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// The greatest key of each type marks free places of the hash tables.
template <class Key>
constexpr Key kReservedKey = std::numeric_limits<Key>::max();

// Loops without a way out in the middle: they become a few instructions a vector.
bool all_finite(const float* values, std::size_t count) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, values + i, sizeof(bits));
    most = std::max(most, bits & 0x7fffffffu);
  }
  return most < 0x7f800000u;
}

/// Of a column of `count` samples, `step` values apart.
bool all_taken(const LabelRange& labels, const float* values, std::size_t count, std::size_t step) {
  const float least = labels.least, most = labels.most;
  unsigned outside = 0;
  for (std::size_t i = 0; i < count * step; i += step) {
    outside |= values[i] >= least && values[i] <= most ? 0u : 1u;  // false for what is no number
  }
  return outside == 0;
}

template <class Key>
bool any_reserved(const Key* keys, std::size_t count) {
  unsigned found = 0;
  for (std::size_t i = 0; i < count; ++i) found |= keys[i] == kReservedKey<Key> ? 1u : 0u;
  return found != 0;
}

class Screen {
 public:
  Screen(const InputLayout& layout, bool keys, CSRChunk& chunk)
      : layout_(layout), keys_(keys), chunk_(chunk) {}

  bool all_good(std::size_t at, std::size_t count) const {
    for (std::size_t k = 0; k < layout_.label_dim; ++k) {
      if (!all_taken(range(k), label(at) + k, count, layout_.label_dim)) return false;
    }
    if (!all_finite(dense(at), count * layout_.dense_dim)) return false;
    for (std::size_t i = 0; keys_ && i < layout_.sparse.size(); ++i) {
      const offset_t* rows = rows_of(i, at);
      const std::size_t first = rows[0], nnz = rows[count * layout_.sparse[i].slot_num] - first;
      const HostCsr& csr = chunk_.sparse[i];
      if (layout_.i64_keys ? any_reserved(csr.keys.as<std::int64_t>() + first, nnz)
                           : any_reserved(csr.keys.as<std::uint32_t>() + first, nnz)) {
        return false;
      }
    }
    return true;
  }

  std::optional<BadValue> bad_value(std::size_t sample) const {
    for (std::size_t k = 0; k < layout_.label_dim; ++k) {
      const float value = label(sample)[k];
      const LabelRange& range = this->range(k);
      if (range.has(value)) continue;
      return BadValue{.part = BadValue::Part::Label,
                      .index = k,
                      .found = concat(value),
                      .allowed = range.loss.empty() || !std::isfinite(value)
                                     ? std::string(kFinite)
                                     : concat("; ", range.loss, " takes labels from ", range.least,
                                              " to ", range.most)};
    }
    for (std::size_t k = 0; k < layout_.dense_dim; ++k) {
      const float value = dense(sample)[k];
      if (std::isfinite(value)) continue;
      return BadValue{.part = BadValue::Part::Dense,
                      .index = k,
                      .found = concat(value),
                      .allowed = std::string(kFinite)};
    }
    for (std::size_t i = 0; keys_ && i < layout_.sparse.size(); ++i) {
      const offset_t* rows = rows_of(i, sample);
      for (std::size_t slot = 0; slot < layout_.sparse[i].slot_num; ++slot) {
        for (std::size_t k = rows[slot]; k < rows[slot + 1]; ++k) {
          if (!reserved(i, k)) continue;
          const std::string key = layout_.i64_keys ? concat(kReservedKey<std::int64_t>)
                                                   : concat(kReservedKey<std::uint32_t>);
          return BadValue{
              .part = BadValue::Part::Key,
              .index = i,
              .slot = slot,
              .nth = k - rows[0],
              .found = key,
              .allowed =
                  "; it is reserved (it marks free places of the hash table): give this key "
                  "another number"};
        }
      }
    }
    return std::nullopt;
  }

  void skip(std::size_t sample) {
    std::fill_n(label(sample), layout_.label_dim, 0.0f);
    std::fill_n(dense(sample), layout_.dense_dim, 0.0f);
    chunk_.weight.as<float>()[sample] = 0.0f;
  }

 private:
  static constexpr const char* kFinite = "; it must be a finite number";

  const LabelRange& range(std::size_t k) const {
    static const LabelRange any;
    return k < layout_.labels.size() ? layout_.labels[k] : any;
  }
  float* label(std::size_t sample) const {
    return chunk_.label.as<float>() + sample * layout_.label_dim;
  }
  float* dense(std::size_t sample) const {
    return chunk_.dense.as<float>() + sample * layout_.dense_dim;
  }
  const offset_t* rows_of(std::size_t input, std::size_t sample) const {
    return chunk_.sparse[input].row_offsets.as<offset_t>() +
           sample * layout_.sparse[input].slot_num;
  }
  bool reserved(std::size_t input, std::size_t k) const {
    const HostCsr& csr = chunk_.sparse[input];
    return layout_.i64_keys ? csr.keys.as<std::int64_t>()[k] == kReservedKey<std::int64_t>
                            : csr.keys.as<std::uint32_t>()[k] == kReservedKey<std::uint32_t>;
  }

  const InputLayout& layout_;
  const bool keys_;
  CSRChunk& chunk_;
};

}  // namespace

std::string BadValue::text(const InputLayout& layout) const {
  switch (part) {
    case Part::Label:
      return concat("label ", index, " is ", found, allowed);
    case Part::Dense:
      return concat("dense value ", index, " is ", found, allowed);
    case Part::Key:
      break;
  }
  return concat("slot ", slot, " of '", layout.sparse[index].top_name, "' has the key ", found,
                allowed);
}

std::size_t screen_samples(const InputLayout& layout, OnBadData on_bad_data, std::size_t at,
                           std::size_t count, CSRChunk& chunk, const RefuseSample& refuse) {
  Screen screen(layout, on_bad_data == OnBadData::Skip, chunk);
  if (screen.all_good(at, count)) return 0;
  std::size_t bad = 0;
  const float* weight = chunk.weight.as<float>();
  for (std::size_t sample = at; sample < at + count; ++sample) {
    if (weight[sample] == 0.0f) continue;  // skipped already: its label is no label
    const std::optional<BadValue> value = screen.bad_value(sample);
    if (!value) continue;
    refuse(sample, *value);
    screen.skip(sample);
    ++bad;
  }
  if (bad > 0) take_keys_out(layout, at, count, chunk);
  return bad;
}

}  // namespace hugectr
