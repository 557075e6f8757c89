// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace hugectr {

/// The system's calls that fail when a disk is full or breaks: -1 and errno, as the system's. Tests
/// give a store others, which fail when they are told to.
class FileCalls {
 public:
  virtual ~FileCalls();
  /// ::open(), for reading and writing, with what `flags` say besides.
  virtual int open(const std::string& path, int flags);
  virtual ssize_t read(int descriptor, void* to, std::size_t bytes, std::uint64_t offset);
  virtual ssize_t write(int descriptor, const void* from, std::size_t bytes, std::uint64_t offset);
  /// Room for `bytes` from the begin of the file, which is then as long.
  virtual int reserve(int descriptor, std::uint64_t bytes);
  /// The file ends behind `bytes`.
  virtual int cut(int descriptor, std::uint64_t bytes);
  virtual int sync(int descriptor);
};

/// What a call on a file could not do, in an error that names table, file and offset and says what
/// helps: `NoRoom` when the disk, a quota or a limit is full, else DataError. `code` is errno.
[[noreturn]] void throw_file_error(const std::string& what, const std::string& table,
                                   const std::string& path, std::uint64_t offset, int code);

}  // namespace hugectr
