// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Bytes read from a file, wherever they begin in their buffer (direct reads are aligned).
class HCTR_API FileBytes {
 public:
  const std::uint8_t* data() const { return storage_.data() + begin_; }
  std::size_t size() const { return size_; }

 private:
  friend class RandomAccessFile;
  std::vector<std::uint8_t> storage_;
  std::size_t begin_ = 0, size_ = 0;
};

/// A file that any number of threads read from at any place. pread, not a mapping: a file that
/// shrinks while it is read is a DataError then, not a signal that ends the process.
class HCTR_API RandomAccessFile {
 public:
  /// `direct`: past the page cache (O_DIRECT), where the file system can; else as usual.
  /// Throws DataError when the file can not be opened.
  explicit RandomAccessFile(std::string path, bool direct = false);
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  bool direct() const { return direct_; }
  /// Makes `to` hold exactly these bytes. Throws DataError naming file and offset when the file
  /// ends before or the disk fails.
  void read(std::uint64_t offset, std::size_t bytes, FileBytes& to) const;

 private:
  static constexpr std::size_t kAlignment = 4096;
  std::string path_;
  int descriptor_ = -1;
  bool direct_ = false;
  std::uint64_t size_ = 0;
};

}  // namespace hugectr
