// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/segment_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/aligned_buffer.hpp"
#include "core/cpp/embedding/storage/storage_error.hpp"

namespace hugectr {
namespace {

static_assert(SegmentFile::kHeaderBytes == kBlockBytes);

/// Of a file that is read as a whole.
constexpr std::size_t kVerifyBytes = std::size_t{1} << 20;

SegmentHeader header_for(const SegmentKind& kind, std::uint32_t number, std::uint64_t owner) {
  SegmentHeader header;
  header.row_bytes = static_cast<std::uint32_t>(kind.shape.row_bytes());
  header.group_bytes = static_cast<std::uint32_t>(kind.shape.bytes());
  header.number = number;
  header.table = crc32(kind.table.data(), kind.table.size());
  header.owner = owner;
  header.crc = crc32(&header, sizeof(header));
  return header;
}

std::uint64_t most_file_bytes() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace

std::size_t SegmentKind::groups() const {
  const std::size_t groups = (bytes - SegmentFile::kHeaderBytes) / shape.bytes();
  HCTR_CHECK(bytes > SegmentFile::kHeaderBytes && groups >= 1 && groups <= UINT16_MAX, "table '",
             table, "': a segment of ", bytes, " bytes can not hold groups of ", shape.bytes());
  return groups;
}

std::string SegmentFile::name_of(std::uint32_t number) {
  char name[24];
  std::snprintf(name, sizeof(name), "%010u%s", number, kSuffix);
  return name;
}

SegmentFile::SegmentFile(const SegmentKind& kind, const std::string& folder, std::uint32_t number)
    : kind_(kind), path_(concat(folder, "/", name_of(number))), number_(number) {}

SegmentFile::~SegmentFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::shared_ptr<SegmentFile> SegmentFile::create(const SegmentKind& kind, const std::string& folder,
                                                 std::uint32_t number, std::uint64_t owner) {
  const std::shared_ptr<SegmentFile> file(new SegmentFile(kind, folder, number));
  file->make_file();
  try {
    // Asked for at once: a disk that is full says so before a row is on its way, and writing makes
    // no file longer, which file systems do one after the other.
    if (kind.files->reserve(file->descriptor_, kind.bytes) != 0 && errno != EOPNOTSUPP &&
        errno != EINVAL) {
      file->fail("no room for", kind.bytes, errno);
    }
    file->write_header(owner);
  } catch (...) {
    file->remove();
    throw;
  }
  return file;
}

void SegmentFile::make_file() {
  direct_ = true;
  descriptor_ = kind_.files->open(path_, O_CREAT | O_EXCL | O_DIRECT);
  if (descriptor_ < 0 && errno == EINVAL) {
    direct_ = false;
    // The refused call may have made the file.
    descriptor_ = kind_.files->open(path_, O_CREAT | O_DSYNC);
  }
  if (descriptor_ < 0) fail("can not open", 0, errno);
}

void SegmentFile::write_header(std::uint64_t owner) {
  AlignedBuffer buffer;
  std::byte* block = buffer.with(kHeaderBytes);
  std::memset(block, 0, kHeaderBytes);
  const SegmentHeader header = header_for(kind_, number_, owner);
  std::memcpy(block, &header, sizeof(header));
  ssize_t done = kind_.files->write(descriptor_, block, kHeaderBytes, 0);
  if (done < 0 && errno == EINVAL && direct_) {  // it takes the flag and refuses what it means
    ::close(descriptor_);
    direct_ = false;
    descriptor_ = kind_.files->open(path_, O_DSYNC);
    if (descriptor_ < 0) fail("can not open", 0, errno);
  }
  if (done != static_cast<ssize_t>(kHeaderBytes)) write_bytes(0, block, kHeaderBytes);
  sums_.add(block, kHeaderBytes);
  head_sum_ = sums_.sums().front();
}

void SegmentFile::write(std::size_t first, std::size_t count, const std::byte* groups) {
  unsynced_ = true;
  write_bytes(offset(first), groups, count * kind_.shape.bytes());
  sums_.add(groups, count * kind_.shape.bytes());  // written in order, and once for good
}

void SegmentFile::read(std::size_t first, std::size_t count, std::byte* groups) const {
  read_bytes(offset(first), groups, count * kind_.shape.bytes());
}

void SegmentFile::check(std::size_t place, const std::byte* group) const {
  const std::string damage = kind_.shape.damage(group, number_, place);
  if (damage.empty()) return;
  raise_damage(concat("table '", kind_.table, "': a group of rows in '", path_, "', byte ",
                      offset(place), ", is damaged: ", damage,
                      "; go on from the last checkpoint, and look at the disk"));
}

template <class F>
void SegmentFile::read_all(const F& f) const {
  const std::size_t group = kind_.shape.bytes(), groups = (sums_.bytes() - kHeaderBytes) / group;
  const std::size_t step = std::max<std::size_t>(kVerifyBytes / group, 1);
  AlignedBuffer buffer;
  std::byte* const data = buffer.with(std::max(step * group, kHeaderBytes));
  read_bytes(0, data, kHeaderBytes);
  f(std::uint64_t{0}, data, kHeaderBytes);
  for (std::size_t first = 0; first < groups; first += step) {
    const std::size_t count = std::min(step, groups - first);
    read(first, count, data);
    f(offset(first), data, count * group);
  }
}

void SegmentFile::verify(bool again) {
  if (verified_ && !again) return;
  ChunkSums found;
  read_all(
      [&](std::uint64_t, const std::byte* data, std::size_t bytes) { found.add(data, bytes); });
  if (found.sums() == sums_.sums()) {
    verified_ = true;
    const std::scoped_lock lock(found_);
    unread_.clear();
    return;
  }
  // Once more, to say where.
  const std::size_t group = kind_.shape.bytes();
  read_all([&](std::uint64_t at, const std::byte* data, std::size_t bytes) {
    for (std::size_t done = 0; at > 0 && done < bytes; done += group) {
      check((at - kHeaderBytes + done) / group, data + done);
    }
  });
  raise_damage(concat("table '", kind_.table, "': '", path_, "', bytes 0 to ", sums_.bytes(),
                      ", is not what was written; go on from the last checkpoint, and look at the "
                      "disk"));
}

std::string SegmentFile::damage() const {
  const std::scoped_lock lock(found_);
  return damage_;
}

std::string SegmentFile::unread() const {
  const std::scoped_lock lock(found_);
  return unread_;
}

void SegmentFile::raise_damage(const std::string& what) const {
  const std::scoped_lock lock(found_);
  if (damage_.empty()) damage_ = what;
  throw StorageError(what);
}

void SegmentFile::write_bytes(std::uint64_t offset, const std::byte* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = kind_.files->write(descriptor_, data + done, bytes - done, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      // A limit that is no multiple of a block cuts a direct write off its grid.
      const bool limited = errno == EINVAL && offset + bytes > most_file_bytes();
      fail("can not write", offset + done, limited ? EFBIG : errno);
    }
    // From the last whole block on; without one it would be tried for ever.
    const std::size_t unit = direct_ ? kBlockBytes : 1;
    const std::size_t whole = static_cast<std::size_t>(n) / unit * unit;
    if (whole == 0) fail("wrote too little to", offset + done, EIO);
    done += whole;
  }
}

void SegmentFile::read_bytes(std::uint64_t offset, std::byte* data, std::size_t bytes) const {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = kind_.files->read(descriptor_, data + done, bytes - done, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int code = errno;
      try {
        fail("can not read", offset + done, code);
      } catch (const DataError& error) {
        const std::scoped_lock lock(found_);
        unread_ = error.what();
        throw StorageError(unread_);
      }
    }
    const bool off_grid = direct_ && n % static_cast<ssize_t>(kBlockBytes) != 0 &&
                          done + static_cast<std::size_t>(n) < bytes;
    if (n == 0 || off_grid) {
      raise_damage(concat("table '", kind_.table, "': '", path_, "', byte ",
                          offset + done + static_cast<std::size_t>(n),
                          ": it ends there although more was written, so it was cut or changed "
                          "by somebody; go on from the last checkpoint"));
    }
    done += static_cast<std::size_t>(n);
  }
}

void SegmentFile::cut_to(std::size_t groups) {
  if (kind_.files->cut(descriptor_, offset(groups)) != 0) {
    fail("can not cut", offset(groups), errno);
  }
  cut_ = unsynced_ = true;
}

void SegmentFile::sync() {
  if (!unsynced_.exchange(false)) return;
  if (kind_.files->sync(descriptor_) == 0) return;
  const int code = errno;
  unsynced_ = true;
  fail("can not sync", 0, code);
}

void SegmentFile::remove() noexcept {
  const std::scoped_lock lock(name_);
  to_be_removed_ = holds_ > 0;
  if (!to_be_removed_) ::unlink(path_.c_str());
}

void SegmentFile::hold() {
  const std::scoped_lock lock(name_);
  ++holds_;
}

void SegmentFile::let_go() noexcept {
  const std::scoped_lock lock(name_);
  if (--holds_ > 0 || !to_be_removed_) return;
  to_be_removed_ = false;
  ::unlink(path_.c_str());
}

void SegmentFile::fail(const char* what, std::uint64_t offset, int code) const {
  throw_file_error(what, kind_.table, path_, offset, code);
}

}  // namespace hugectr
