// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/segment_file.hpp"

namespace hugectr {
namespace {

constexpr const char* kOwner = "/owner";
/// A store that comes at the moment in which another one looks for leftovers waits for it.
constexpr int kTries = 20;
constexpr std::chrono::milliseconds kBetweenTries{25};

std::string this_process() {
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  return concat("process ", ::getpid(), " on ", host, ", table ");
}

std::string owner_text(const std::string& table) { return concat(this_process(), table, "\n"); }

std::string printable_text_of(int descriptor) {
  char text[512] = {};
  const ssize_t n = ::pread(descriptor, text, sizeof(text) - 1, 0);
  std::string line(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  line = line.substr(0, line.find('\n'));
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return !std::isprint(c); }, '?');
  return line.empty() ? "an unknown process" : line;
}

/// How to get rid of an owner.
std::string way_out(const std::string& owner) {
  const std::string own = this_process();
  if (owner.compare(0, own.size(), own) != 0) {
    return ", which is still there (or a process that it forked); end it";
  }
  return ", which is this process: let go of the model that has them (del model, and whatever else "
         "holds it)";
}

bool locked(int descriptor) {
  for (int left = kTries; left > 0; --left) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK) return false;
    std::this_thread::sleep_for(kBetweenTries);
  }
  errno = EWOULDBLOCK;
  return false;
}

/// Of a folder that a store has made: name-number-deviceN.
bool is_name_of_store(const std::string& name) {
  constexpr std::string_view kDevice = "-device";
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::string_view all = name;
  const std::size_t device = all.rfind(kDevice);
  if (device == std::string_view::npos || !digits(all.substr(device + kDevice.size()))) {
    return false;
  }
  const std::string_view table = all.substr(0, device);
  const std::size_t sum = table.rfind('-');
  return sum != std::string_view::npos && digits(table.substr(sum + 1));
}

bool is_name_of_segment(const std::string& name) {
  const std::string suffix = SegmentFile::kSuffix;
  return name.size() == 10 + suffix.size() && name.substr(10) == suffix &&
         std::all_of(name.begin(), name.begin() + 10,
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Of this process, by the folder that theirs lie in.
struct Stores {
  std::mutex mutex;
  std::map<std::string, std::size_t> count;
};

Stores& stores() {
  static auto* const all = new Stores;  // some go after static objects
  return *all;
}

std::filesystem::path normal(const std::string& folder) {
  return std::filesystem::path(folder).lexically_normal();
}

}  // namespace

StoreBesideOthers::StoreBesideOthers(const std::string& folder)
    : parent_(normal(folder).parent_path().string()) {
  const std::lock_guard lock(stores().mutex);
  is_first_ = stores().count[parent_]++ == 0;
}

StoreBesideOthers::~StoreBesideOthers() {
  const std::lock_guard lock(stores().mutex);
  const auto own = stores().count.find(parent_);
  if (--own->second == 0) stores().count.erase(own);
}

FolderLock::FolderLock(const std::string& folder, const std::string& table) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw DataError(concat("table '", table, "': the folder '", folder,
                           "' for its rows can not be made: ", error.message(),
                           "; name another one in Memory(disk=)"));
  }
  const std::string path = folder + kOwner;
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  const int code = errno;
  if (descriptor_ < 0) throw_file_error("can not open", table, path, 0, code);
  if (!locked(descriptor_)) {
    const int why = errno;
    const std::string owner = printable_text_of(descriptor_);
    ::close(descriptor_);
    if (why != EWOULDBLOCK) throw_file_error("can not lock", table, path, 0, why);
    throw InvalidArgument(concat("table '", table, "': the folder '", folder, "' holds rows of ",
                                 owner, way_out(owner),
                                 ", or name another folder in Memory(disk=)"));
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

std::size_t remove_leftovers_beside(const std::string& folder) {
  namespace fs = std::filesystem;
  std::size_t removed = 0;
  std::error_code error;
  const fs::path own = normal(folder);
  for (fs::directory_iterator at(own.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!is_name_of_store(name) || name == own.filename().string()) continue;
    std::error_code of_entry;
    if (!at->is_directory(of_entry) || at->is_symlink(of_entry)) continue;
    const std::string path = at->path().string() + kOwner;
    const int owner = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (owner < 0) continue;
    try {
      // Under its lock: a store that is about to begin there waits, one that is there keeps it.
      if (::flock(owner, LOCK_EX | LOCK_NB) == 0) removed += remove_leftovers(at->path().string());
    } catch (const fs::filesystem_error&) {  // a folder that is not ours to read stays
    }
    ::close(owner);
  }
  return removed;
}

}  // namespace hugectr
