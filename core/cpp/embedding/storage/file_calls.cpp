// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/file_calls.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/cpp/embedding/storage/no_room.hpp"
#include "core/cpp/embedding/storage/storage_error.hpp"

namespace hugectr {

FileCalls::~FileCalls() = default;

int FileCalls::open(const std::string& path, int flags) {
  return ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

ssize_t FileCalls::read(int descriptor, void* to, std::size_t bytes, std::uint64_t offset) {
  return ::pread(descriptor, to, bytes, static_cast<off_t>(offset));
}

ssize_t FileCalls::write(int descriptor, const void* from, std::size_t bytes,
                         std::uint64_t offset) {
  return ::pwrite(descriptor, from, bytes, static_cast<off_t>(offset));
}

int FileCalls::reserve(int descriptor, std::uint64_t bytes) {
  return ::fallocate(descriptor, 0, 0, static_cast<off_t>(bytes));
}

int FileCalls::cut(int descriptor, std::uint64_t bytes) {
  return ::ftruncate(descriptor, static_cast<off_t>(bytes));
}

int FileCalls::sync(int descriptor) { return ::fdatasync(descriptor); }

void throw_file_error(const std::string& what, const std::string& table, const std::string& path,
                      std::uint64_t offset, int code) {
  const std::string text = concat("table '", table, "': ", what, " '", path, "', byte ", offset,
                                  ": ", std::strerror(code));
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) {
    throw NoRoom(
        concat(text,
               "; no row is lost, and all but training goes on: make room there (checkpoints "
               "that share segments hold theirs), raise the limit or evict rows "
               "(Model.evict), and training does too"));
  }
  throw StorageError(concat(text,
                            "; look at the disk (its cable, its log, its file system), then go on "
                            "from the last checkpoint, in another folder if it stays"));
}

}  // namespace hugectr
