// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// Empty for a regular file.
std::string refusal_of(const struct stat& status) {
  const char* what = nullptr;
  switch (status.st_mode & S_IFMT) {
    case S_IFREG:
      return {};
    case S_IFDIR:
      what = "a folder";
      break;
    case S_IFIFO:
      what = "a pipe";
      break;
    case S_IFSOCK:
      what = "a socket";
      break;
    default:
      what = "a device";
  }
  return concat("is ", what, ", not a regular file");
}

OpenedFile refused(std::string refusal) { return {.refusal = std::move(refusal)}; }

}  // namespace

OpenedFile open_regular_file(const std::string& path, bool direct) {
  // The system would stop reading the name there.
  if (path.find('\0') != std::string::npos) return refused("has a zero byte in its name");
  const auto unopened = [] { return concat("can not be opened: ", std::strerror(errno)); };
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return refused(unopened());
  if (std::string what = refusal_of(status); !what.empty()) return refused(std::move(what));
  // O_NONBLOCK: it may have become a pipe since.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  OpenedFile file;
  if (direct) file.descriptor = ::open(path.c_str(), kFlags | O_DIRECT);
  if (file.descriptor < 0) file.descriptor = ::open(path.c_str(), kFlags);
  if (file.descriptor < 0) return refused(unopened());
  file.refusal = ::fstat(file.descriptor, &status) == 0 ? refusal_of(status) : unopened();
  if (!file.refusal.empty()) {
    ::close(file.descriptor);
    file.descriptor = -1;
  }
  file.size = static_cast<std::uint64_t>(status.st_size);
  return file;
}

}  // namespace hugectr
