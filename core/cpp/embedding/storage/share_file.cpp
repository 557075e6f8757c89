// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/share_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

namespace hugectr {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

/// An open file, closed with the object.
class Opened {
 public:
  Opened(const SegmentKind& kind, const std::string& path, int descriptor)
      : kind_(kind), path_(path), descriptor_(descriptor) {
    if (descriptor_ < 0) fail("can not open", 0);
  }
  ~Opened() { ::close(descriptor_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  /// Up to `bytes`; 0 at the end.
  std::size_t read(std::byte* to, std::size_t bytes, std::uint64_t offset) const {
    for (;;) {
      const ssize_t n = kind_.files->read(descriptor_, to, bytes, offset);
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno != EINTR) fail("can not read", offset);
    }
  }
  void write(const std::byte* from, std::size_t bytes, std::uint64_t offset) const {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t n = kind_.files->write(descriptor_, from + done, bytes - done, offset + done);
      if (n < 0 && errno == EINTR) continue;
      if (n == 0) errno = EIO;  // it would be tried for ever
      if (n <= 0) fail("can not write", offset + done);
      done += static_cast<std::size_t>(n);
    }
  }
  void sync() const {
    if (kind_.files->sync_whole(descriptor_) != 0) fail("can not sync", 0);
  }

 private:
  [[noreturn]] void fail(const char* what, std::uint64_t offset) const {
    throw_file_error(what, kind_.table, path_, offset, errno);
  }

  const SegmentKind& kind_;
  const std::string& path_;
  const int descriptor_;
};

bool has_no_link(int code) {
  return code == EXDEV || code == EPERM || code == EOPNOTSUPP || code == EMLINK || code == ENOSYS;
}

/// Through buffers of the system, so it is there for sure only when it was synced.
void copy_file(const SegmentKind& kind, const std::string& from, const std::string& to) {
  const Opened source(kind, from, ::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const Opened target(kind, to, kind.files->open(to, O_CREAT | O_EXCL));
  try {
    std::vector<std::byte> buffer(kCopyBytes);
    std::uint64_t done = 0;
    while (const std::size_t n = source.read(buffer.data(), buffer.size(), done)) {
      target.write(buffer.data(), n, done);
      done += n;
    }
    target.sync();
  } catch (...) {
    ::unlink(to.c_str());
    throw;
  }
}

void sync_path(const SegmentKind& kind, const std::string& path, int flags) {
  Opened(kind, path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)).sync();
}

}  // namespace

void share_file(const SegmentKind& kind, const std::string& from, const std::string& to) {
  if (kind.files->link(from, to) == 0) return;
  if (!has_no_link(errno)) throw_file_error("can not link", kind.table, to, 0, errno);
  copy_file(kind, from, to);
}

void sync_file(const SegmentKind& kind, const std::string& path) { sync_path(kind, path, 0); }

void sync_folder(const SegmentKind& kind, const std::string& path) {
  sync_path(kind, path, O_DIRECTORY);
}

void make_folder(const SegmentKind& kind, const std::string& path) {
  std::error_code error;
  std::vector<std::filesystem::path> missing;
  const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  for (std::filesystem::path at = whole; !error && !std::filesystem::exists(at, error);
       at = at.parent_path()) {
    missing.push_back(at);
  }
  if (!error) std::filesystem::create_directories(whole, error);
  if (error) throw_file_error("can not make", kind.table, path, 0, error.value());
  for (const std::filesystem::path& made : missing) sync_folder(kind, made.parent_path().string());
}

}  // namespace hugectr
