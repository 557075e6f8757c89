// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/raw_rows.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

template <class T>
T load_raw(const std::uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// log(x + 1); counts are small more often than not, so the first ones are kept.
float log1p_of(std::uint32_t x) {
  constexpr std::size_t kKept = 1 << 12;
  static const std::array<float, kKept> kept = [] {
    std::array<float, kKept> values{};
    for (std::size_t i = 0; i < kKept; ++i) {
      values[i] = static_cast<float>(std::log1p(static_cast<double>(i)));
    }
    return values;
  }();
  return x < kKept ? kept[x] : static_cast<float>(std::log1p(static_cast<double>(x)));
}

template <class Key, bool kOffsets>
void write_keys(const std::uint8_t* from, const std::int64_t* offsets, std::size_t count, Key* to) {
  for (std::size_t k = 0; k < count; ++k) {
    const auto key = static_cast<std::int64_t>(load_raw<std::uint32_t>(from + 4 * k));
    to[k] = static_cast<Key>(kOffsets ? key + offsets[k] : key);
  }
}

template <class Key>
void write_input(const RawSampleLayout& sample, const std::uint8_t* bytes, std::size_t count,
                 std::size_t first_word, std::size_t first_key, const RawSampleLayout::Input& input,
                 std::size_t at, HostCsr& csr) {
  const std::size_t width = input.keys;
  Key* to = csr.keys.as<Key>() + csr.nnz;
  const std::int64_t* offsets = sample.key_offsets.data() + first_key;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* from = bytes + i * sample.sample_bytes() + 4 * first_word;
    sample.has_offsets ? write_keys<Key, true>(from, offsets, width, to + i * width)
                       : write_keys<Key, false>(from, offsets, width, to + i * width);
  }
  offset_t* rows = csr.row_offsets.as<offset_t>() + at * input.keys_of_slot.size();
  auto next = static_cast<offset_t>(csr.nnz);
  for (std::size_t i = 0; i < count; ++i) {
    for (const int nnz : input.keys_of_slot) {
      *rows++ = next;
      next += static_cast<offset_t>(nnz);
    }
  }
  *rows = next;
  csr.nnz += count * width;
}

}  // namespace

RawSampleLayout::RawSampleLayout(const InputLayout& input_layout, RawNumbers raw_numbers,
                                 bool one_key_a_slot, const std::vector<std::int64_t>& slot_offsets)
    : layout(input_layout), numbers(raw_numbers) {
  HCTR_CHECK(slot_offsets.empty() || slot_offsets.size() == layout.total_slots(),
             "Raw data: slot_size_array has ", slot_offsets.size(),
             " sizes, the model's Input has ", layout.total_slots(),
             " slots: give one a slot, or none");
  std::size_t slot = 0;
  for (const SparseInput& sparse : layout.sparse) {
    Input input;
    for (const int nnz : sparse.nnz_per_slot) {
      const int count = one_key_a_slot ? 1 : nnz;
      const std::int64_t offset = slot_offsets.empty() ? 0 : slot_offsets[slot];
      key_offsets.insert(key_offsets.end(), static_cast<std::size_t>(count), offset);
      input.keys_of_slot.push_back(count);
      input.keys += static_cast<std::size_t>(count);
      has_offsets |= offset != 0;
      ++slot;
    }
    inputs.push_back(std::move(input));
  }
  keys = key_offsets.size();
  words = layout.label_dim + layout.dense_dim + keys;
}

std::size_t write_raw_samples(const RawSampleLayout& sample, const std::uint8_t* bytes,
                              std::size_t count, std::size_t at, CSRChunk& chunk) {
  const InputLayout& layout = sample.layout;
  const std::size_t label_dim = layout.label_dim, dense_dim = layout.dense_dim;
  float* label = chunk.label.as<float>() + at * label_dim;
  float* dense = chunk.dense.as<float>() + at * dense_dim;
  std::size_t first_bad = count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* from = bytes + i * sample.sample_bytes();
    if (sample.numbers.float_label) {
      std::memcpy(label + i * label_dim, from, 4 * label_dim);
    } else {
      for (std::size_t k = 0; k < label_dim; ++k) {
        label[i * label_dim + k] = static_cast<float>(load_raw<std::int32_t>(from + 4 * k));
      }
    }
    from += 4 * label_dim;
    if (sample.numbers.float_dense) {
      std::memcpy(dense + i * dense_dim, from, 4 * dense_dim);
      continue;
    }
    for (std::size_t k = 0; k < dense_dim; ++k) {
      const auto value = load_raw<std::int32_t>(from + 4 * k);
      if (value < 0 && first_bad == count) first_bad = i;
      dense[i * dense_dim + k] = log1p_of(value < 0 ? 0u : static_cast<std::uint32_t>(value));
    }
  }
  float* weight = chunk.weight.as<float>() + at;
  for (std::size_t i = 0; i < count; ++i) weight[i] = 1.0f;
  std::size_t word = label_dim + dense_dim, key = 0;
  for (std::size_t s = 0; s < layout.sparse.size(); ++s) {
    const RawSampleLayout::Input& input = sample.inputs[s];
    layout.i64_keys
        ? write_input<std::int64_t>(sample, bytes, count, word, key, input, at, chunk.sparse[s])
        : write_input<std::uint32_t>(sample, bytes, count, word, key, input, at, chunk.sparse[s]);
    word += input.keys;
    key += input.keys;
  }
  return first_bad;
}

}  // namespace hugectr
