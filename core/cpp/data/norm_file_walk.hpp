// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/data/norm_boundary.hpp"
#include "core/cpp/data/norm_file.hpp"
#include "core/cpp/data/norm_range.hpp"

namespace hugectr {

/// Walks a Norm file range by range, from boundary to boundary, without a look at checksums or
/// contents. No byte is read twice.
class NormFileWalk {
 public:
  /// Throws DataError when the file can not be read or its header is damaged or does not fit.
  NormFileWalk(std::shared_ptr<const std::string> path, const NormRecordShape& shape,
               const InputLayout& layout);

  /// Goes on at a record that begins at this byte; before the first next().
  void seek(std::uint64_t record, std::uint64_t byte);
  /// Makes `range` the next records: as many as lie in so many bytes (one, if it is longer), `most`
  /// of them at most. False when there is none: at the end, or where the next one is lost.
  bool next(NormRange& range, std::uint64_t bytes,
            std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

  const NormFile& file() const { return file_; }
  std::uint64_t record() const { return record_; }  ///< the next one
  std::uint64_t byte() const { return byte_; }      ///< where it begins
  /// The records that the header promises have all been walked over.
  bool at_end() const { return record_ == file_.records(); }
  /// What is wrong here: behind the last record, or with the next one when next() returned false.
  std::optional<NormLoss> loss() const;

 private:
  std::size_t read_more(NormRange& range, std::size_t filled, std::uint64_t wanted) const;

  const NormRecordShape& shape_;
  const InputLayout& layout_;
  NormFile file_;
  std::uint64_t record_ = 0, byte_;
  std::vector<std::uint8_t> rest_;  ///< bytes from byte_ on that were read with the last range
  std::string lost_to_;             ///< why nobody knows where the next record ends
};

}  // namespace hugectr
