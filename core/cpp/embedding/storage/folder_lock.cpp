// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/segment_file.hpp"

namespace hugectr {
namespace {

std::string owner_text(const std::string& table) {
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  return concat("process ", ::getpid(), " on ", host, ", table ", table, "\n");
}

std::string printable_text_of(int descriptor) {
  char text[512] = {};
  const ssize_t n = ::pread(descriptor, text, sizeof(text) - 1, 0);
  std::string line(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  line = line.substr(0, line.find('\n'));
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return !std::isprint(c); }, '?');
  return line.empty() ? "an unknown process" : line;
}

bool is_name_of_segment(const std::string& name) {
  const std::string suffix = SegmentFile::kSuffix;
  return name.size() == 10 + suffix.size() && name.substr(10) == suffix &&
         std::all_of(name.begin(), name.begin() + 10,
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, const std::string& table) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw DataError(concat("table '", table, "': the folder '", folder,
                           "' for its rows can not be made: ", error.message(),
                           "; name another one in Memory(disk=)"));
  }
  const std::string path = folder + "/owner";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  const int code = errno;
  if (descriptor_ < 0) throw_file_error("can not open", table, path, 0, code);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    const std::string owner = printable_text_of(descriptor_);
    ::close(descriptor_);
    if (why != EWOULDBLOCK) throw_file_error("can not lock", table, path, 0, why);
    throw InvalidArgument(concat("table '", table, "': the folder '", folder, "' holds rows of ",
                                 owner,
                                 ", which is still there (or a process that it forked); end it, or "
                                 "name another folder in Memory(disk=)"));
  }
  const std::string text = owner_text(table);  // for messages alone: the lock is what counts
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) < 0) {
    const int why = errno;
    ::close(descriptor_);
    throw_file_error("can not write", table, path, 0, why);
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

std::size_t remove_leftovers(const std::string& folder) {
  std::size_t removed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!is_name_of_segment(entry.path().filename().string())) continue;
    std::error_code error;
    if (!entry.is_regular_file(error) || entry.is_symlink(error)) continue;
    if (std::filesystem::remove(entry.path(), error)) ++removed;
  }
  return removed;
}

}  // namespace hugectr
