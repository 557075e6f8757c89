// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/csr_chunk.hpp"

namespace hugectr {

/// How the words of a Raw file are read.
struct RawNumbers {
  bool float_label = false;  ///< labels are float32, else int32
  bool float_dense = false;  ///< dense features are float32, else int32, which become log(x + 1)
};

/// The sample of a Raw file: label_dim and dense_dim words, then the keys of all slots, each slot
/// with exactly one, or exactly nnz_per_slot of them; every word 4 bytes, little-endian.
struct HCTR_API RawSampleLayout {
  /// Keys of a sparse input.
  struct Input {
    std::vector<int> keys_of_slot;
    std::size_t keys = 0;  ///< of all its slots
  };

  /// `slot_offsets`, one a slot of all sparse inputs together or none, are added to the keys.
  RawSampleLayout(const InputLayout& layout, RawNumbers numbers, bool one_key_a_slot,
                  const std::vector<std::int64_t>& slot_offsets);

  std::size_t sample_bytes() const { return words * 4; }

  const InputLayout& layout;
  RawNumbers numbers;
  std::vector<Input> inputs;              ///< one a sparse input
  std::vector<std::int64_t> key_offsets;  ///< added to each key of a sample
  bool has_offsets = false;
  std::size_t words = 0, keys = 0;
};

/// Writes samples that lie one after the other at `bytes` as samples [at, at + count) of the chunk,
/// with weight 1. Returns the position of the first sample (0 .. count - 1) whose dense value has
/// no logarithm (int32 below 0), or count. Keys are taken as unsigned, so none is out of range.
HCTR_API std::size_t write_raw_samples(const RawSampleLayout& sample, const std::uint8_t* bytes,
                                       std::size_t count, std::size_t at, CSRChunk& chunk);

}  // namespace hugectr
