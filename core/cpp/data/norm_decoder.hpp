// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/damage_log.hpp"
#include "core/cpp/data/norm_range.hpp"
#include "core/cpp/data/norm_record.hpp"
#include "core/cpp/data/sample_screen.hpp"

namespace hugectr {

/// Turns records into samples of a chunk, verifying checksums and every nnz.
class NormDecoder {
 public:
  NormDecoder(const InputLayout& layout, const NormRecordShape& shape, OnBadData on_bad_data,
              DamageLog& damage)
      : layout_(layout), shape_(shape), on_bad_data_(on_bad_data), damage_(damage) {}

  /// Keys for which decode_rows() wants room behind those that it writes.
  static constexpr std::size_t kKeySlack = 4;
  /// Decodes records [first, first + count) of a range as samples [at, at + count) of the chunk,
  /// with their keys behind its nnz; row_offsets are set up to there. Error: throws DataError for
  /// the first damaged one. Skip: it keeps its place with weight 0. Returns the number skipped.
  std::size_t decode_rows(const NormRange& range, std::size_t first, std::size_t count,
                          std::size_t at, CSRChunk& chunk) const;

 private:
  template <class Key>
  std::size_t decode_keyed(const NormRange& range, std::size_t first, std::size_t count,
                           std::size_t at, CSRChunk& chunk) const;
  /// Throws, or counts and notes.
  void refuse(const NormRange& range, const std::string& message, CSRChunk& chunk) const;
  std::string explain(const NormRange& range, std::size_t row) const;
  std::string explain(const NormRange& range, std::size_t row, const BadValue& value) const;

  const InputLayout& layout_;
  const NormRecordShape& shape_;
  OnBadData on_bad_data_;
  DamageLog& damage_;
};

}  // namespace hugectr
