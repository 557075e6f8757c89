// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/norm_record.hpp"

namespace hugectr {

/// A DataError text: file, byte offset, what was found and allowed, the way out.
std::string norm_message(const std::string& path, std::uint64_t offset, const std::string& what);

/// What to add to an error when the records add up with keys of the other width.
std::string other_key_width_hint(bool i64_keys);

/// One Norm data file, open for reading, its header checked against the model.
class NormFile {
 public:
  /// Throws DataError when the file can not be read or its header is damaged or does not fit.
  NormFile(std::shared_ptr<const std::string> path, const NormRecordShape& shape,
           const InputLayout& layout);
  ~NormFile();
  NormFile(const NormFile&) = delete;
  NormFile& operator=(const NormFile&) = delete;

  const std::shared_ptr<const std::string>& path() const { return path_; }
  std::uint64_t records() const { return records_; }
  std::uint64_t size() const { return size_; }
  /// Byte offset of the first record.
  std::uint64_t first_record() const { return first_record_; }
  /// Mean size of a record with its frame, rounded up; a guess when the header is wrong.
  std::size_t record_bytes() const;

  /// Reads up to `bytes` bytes at `offset`; fewer only at the end of the file.
  std::size_t read(std::uint64_t offset, std::uint8_t* to, std::size_t bytes) const;

  /// Text to add to an error: says so when the first records add up with the other key width.
  std::string key_width_hint(const InputLayout& layout) const;

 private:
  void read_header(const InputLayout& layout);
  [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const;

  std::shared_ptr<const std::string> path_;
  const NormRecordShape& shape_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t first_record_ = 0;
};

}  // namespace hugectr
