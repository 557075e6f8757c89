// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/linked_segments.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <system_error>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/segment_file.hpp"
#include "core/cpp/embedding/storage/segment_header.hpp"

namespace hugectr {
namespace {

constexpr const char* kTakeAnother = ": take another checkpoint";
/// Requests of one reader under way: who reads along the files needs few.
constexpr std::size_t kLinkReaders = 8;
/// Groups that nobody asks for are read over where they are fewer than this between two others.
constexpr std::size_t kLeastGap = 8;
constexpr std::size_t kMostReadBytes = std::size_t{1} << 20;

/// A regular file, open for reading: no link is followed, and nothing that a name can be made to
/// stand for (a pipe, a device) is waited for.
class LinkedFile {
 public:
  explicit LinkedFile(const std::string& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor_ < 0) fail(std::generic_category().message(errno));
    if (::fstat(descriptor_, &known_) != 0 || !S_ISREG(known_.st_mode)) {
      ::close(descriptor_);
      throw DataError(concat(path_, " is no regular file", kTakeAnother));
    }
  }
  ~LinkedFile() { ::close(descriptor_); }
  LinkedFile(const LinkedFile&) = delete;
  LinkedFile& operator=(const LinkedFile&) = delete;

  std::uint64_t size() const { return static_cast<std::uint64_t>(known_.st_size); }
  void read(std::uint64_t offset, std::byte* to, std::size_t bytes) const {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t n =
          ::pread(descriptor_, to + done, bytes - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(std::generic_category().message(errno));
      if (n == 0) fail(concat("it ends at byte ", offset + done));
      done += static_cast<std::size_t>(n);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw DataError(concat(path_, " can not be read (", why, ")", kTakeAnother));
  }

  const std::string path_;
  int descriptor_ = -1;
  struct stat known_{};
};

std::size_t segment_of(std::uint64_t place) { return static_cast<std::size_t>(place >> 32); }
std::size_t group_of(std::uint64_t place) { return static_cast<std::size_t>(place >> 16 & 0xFFFF); }
std::size_t position_of(std::uint64_t place) { return static_cast<std::size_t>(place & 0xFFFF); }

/// Groups of one segment for one read, with the places that are in them.
struct LinkedRun {
  std::size_t segment, first, groups;
  std::size_t begin, end;
};

}  // namespace

LinkedSegments::LinkedSegments(std::size_t row_bytes, std::vector<LinkedSegment> segments)
    : shape_(row_bytes), segments_(std::move(segments)) {
  opened_.reserve(segments_.size());
  for (const LinkedSegment& segment : segments_) opened_.push_back(checked(segment));
  if (!segments_.empty()) threads_ = std::make_unique<IoThreads>(kLinkReaders);
}

LinkedSegments::Opened LinkedSegments::checked(const LinkedSegment& segment) const {
  const LinkedFile file(segment.path);
  const auto refuse = [&](const std::string& why) {
    throw DataError(concat(segment.path, " ", why, kTakeAnother));
  };
  if (file.size() != segment.bytes) {
    refuse(concat("has ", file.size(), " bytes, the manifest says ", segment.bytes));
  }
  const std::uint64_t head = SegmentFile::kHeaderBytes;
  const std::uint64_t groups = segment.bytes < head ? 0 : (segment.bytes - head) / shape_.bytes();
  if (groups == 0 || groups > UINT16_MAX || head + groups * shape_.bytes() != segment.bytes) {
    refuse(concat("has ", segment.bytes, " bytes, which are no groups of ", shape_.bytes(),
                  " behind a head of ", head));
  }
  std::vector<std::byte> block(head);
  file.read(0, block.data(), block.size());
  if (crc32(block.data(), block.size()) != segment.head) {
    refuse("is damaged or another table's: its first block is not that of the manifest");
  }
  SegmentHeader header;
  const SegmentHeader wanted;
  std::memcpy(&header, block.data(), sizeof(header));
  if (std::memcmp(header.magic, wanted.magic, sizeof(header.magic)) != 0 ||
      header.version != wanted.version || header.row_bytes != shape_.row_bytes() ||
      header.group_bytes != shape_.bytes()) {
    refuse(concat("is no segment of rows of ", shape_.row_bytes(), " bytes"));
  }
  return {header.number, static_cast<std::size_t>(groups)};
}

void LinkedSegments::check_place(std::uint64_t place) const {
  const std::size_t segment = segment_of(place);
  if (segment >= segments_.size()) {
    throw DataError(
        concat("a row is said to be in segment ", segment, " of ", segments_.size(), kTakeAnother));
  }
  if (group_of(place) >= opened_[segment].groups || position_of(place) >= shape_.capacity()) {
    throw DataError(concat(segments_[segment].path, ": a row is said to be at position ",
                           position_of(place), " of group ", group_of(place), ", it has ",
                           opened_[segment].groups, " groups of ", shape_.capacity(),
                           kTakeAnother));
  }
}

void LinkedSegments::read(std::span<const std::uint64_t> places, std::byte* rows) const {
  for (const std::uint64_t place : places) check_place(place);
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!std::is_sorted(places.begin(), places.end())) {
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return places[a] < places[b]; });
  }
  const std::size_t most = std::max<std::size_t>(kMostReadBytes / shape_.bytes(), 1);
  std::vector<LinkedRun> runs;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t segment = segment_of(places[order[k]]), group = group_of(places[order[k]]);
    if (!runs.empty() && runs.back().segment == segment) {
      LinkedRun& run = runs.back();
      if (group < run.first + std::min(most, run.groups + kLeastGap)) {
        run.groups = std::max(run.groups, group - run.first + 1);
        run.end = k + 1;
        continue;
      }
    }
    runs.push_back({segment, group, 1, k, k + 1});
  }
  if (runs.empty()) return;
  threads_->run(runs.size(), [&](std::size_t r, AlignedBuffer& buffer) {
    const LinkedRun& run = runs[r];
    const std::string& path = segments_[run.segment].path;
    std::byte* const data = buffer.with(run.groups * shape_.bytes());
    const std::uint64_t offset = SegmentFile::kHeaderBytes + run.first * shape_.bytes();
    LinkedFile(path).read(offset, data, run.groups * shape_.bytes());
    std::size_t seen = SIZE_MAX;
    for (std::size_t k = run.begin; k < run.end; ++k) {
      const std::uint64_t place = places[order[k]];
      const std::size_t g = group_of(place) - run.first;
      const std::byte* const group = data + g * shape_.bytes();
      const auto refuse = [&](const std::string& why) {
        throw DataError(concat(path, " is damaged in bytes ", offset + g * shape_.bytes(), " to ",
                               offset + (g + 1) * shape_.bytes(), ": ", why, kTakeAnother));
      };
      if (g != seen) {
        const std::string damage =
            shape_.damage(group, opened_[run.segment].number, group_of(place));
        if (!damage.empty()) refuse(damage);
        seen = g;
      }
      if (position_of(place) >= shape_.rows(group)) {
        refuse(concat("it has ", shape_.rows(group), " rows, one is said to be at position ",
                      position_of(place)));
      }
      std::memcpy(rows + order[k] * shape_.row_bytes(), shape_.row(group, position_of(place)),
                  shape_.row_bytes());
    }
  });
}

}  // namespace hugectr
