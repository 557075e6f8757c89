// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/damage_log.hpp"
#include "core/cpp/data/norm_record.hpp"
#include "core/cpp/data/sample_screen.hpp"

namespace hugectr {

/// Bytes of a batch and where its records lie in them.
struct NormRawBatch final : RawBatch {
  struct Record {
    std::size_t begin;  ///< of the record in bytes, frame included
    std::size_t payload_bytes;
  };
  /// Records from first_sample on lie one after the other in one file.
  struct Run {
    std::size_t first_sample;
    std::size_t begin;          ///< of the run in bytes
    std::uint64_t file_offset;  ///< of the same place in the file
    std::shared_ptr<const std::string> path;
  };

  /// Bytes behind the used ones that may be read, whatever they hold.
  static constexpr std::size_t kSlack = 32;

  NormRawBatch() : bytes(make_host_memory_resource()) {}
  void clear() {
    samples = used = 0;
    lost = 0;
    damage.clear();
    records.clear();
    runs.clear();
  }
  const Run& run_of(std::size_t sample) const;

  StagingArray bytes;
  std::size_t used = 0;
  std::vector<Record> records;
  std::vector<Run> runs;
};

/// Turns the bytes of a batch into a chunk, verifying checksums and every nnz.
class NormDecoder {
 public:
  NormDecoder(const InputLayout& layout, const NormRecordShape& shape, OnBadData on_bad_data,
              DamageLog& damage)
      : layout_(layout), shape_(shape), on_bad_data_(on_bad_data), damage_(damage) {}

  /// Error: throws DataError for the first damaged sample. Skip: it keeps its place with weight 0.
  void decode(const NormRawBatch& raw, std::size_t batch, CSRChunk& chunk) const;

  /// Keys for which decode_rows() wants room behind those that it writes.
  static constexpr std::size_t kKeySlack = 4;
  /// Decodes samples [first, first + count) of `raw` as samples [at, at + count) of the chunk, with
  /// their keys behind its nnz; row_offsets are set up to there. Returns the number skipped.
  std::size_t decode_rows(const NormRawBatch& raw, std::size_t first, std::size_t count,
                          std::size_t at, CSRChunk& chunk) const;

 private:
  template <class Key>
  std::size_t decode_keyed(const NormRawBatch& raw, std::size_t first, std::size_t count,
                           std::size_t at, CSRChunk& chunk) const;
  void reserve_keys(const NormRawBatch& raw, CSRChunk& chunk) const;
  /// Throws, or counts and notes.
  void refuse(const NormRawBatch& raw, std::size_t sample, const std::string& message,
              CSRChunk& chunk) const;
  std::string explain(const NormRawBatch& raw, std::size_t sample) const;
  std::string explain(const NormRawBatch& raw, std::size_t sample, const BadValue& value) const;

  const InputLayout& layout_;
  const NormRecordShape& shape_;
  OnBadData on_bad_data_;
  DamageLog& damage_;
};

}  // namespace hugectr
