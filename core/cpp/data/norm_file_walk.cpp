// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_file_walk.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hugectr {
namespace {

/// Bytes of one pread: big enough for the disk, small enough that the hop over the records that
/// follows finds them in the cache.
constexpr std::uint64_t kReadBytes = 1 << 19;

}  // namespace

NormFileWalk::NormFileWalk(std::shared_ptr<const std::string> path, const NormRecordShape& shape,
                           const InputLayout& layout)
    : shape_(shape),
      layout_(layout),
      file_(std::move(path), shape, layout),
      byte_(file_.first_record()) {}

void NormFileWalk::seek(std::uint64_t record, std::uint64_t byte) {
  record_ = record;
  byte_ = byte;
}

bool NormFileWalk::next(NormRange& range, std::uint64_t bytes, std::uint64_t most) {
  range.path = file_.path();
  range.byte = byte_;
  range.begins.clear();
  std::size_t cursor = 0, filled = rest_.size();
  const std::uint64_t there = file_.size() - std::min(byte_, file_.size());
  range.bytes.reserve(std::max<std::uint64_t>(filled, std::min(bytes, there)) + NormRange::kSlack);
  std::copy(rest_.begin(), rest_.end(), range.bytes.as<std::uint8_t>());
  const std::uint64_t left = file_.records() - std::min(record_, file_.records());
  const std::uint64_t goal = std::min(most, left);
  std::string what;
  while (range.begins.size() < goal) {
    std::size_t payload = 0, needed = 0;
    const RecordFit fit = fit_record(shape_, range.bytes.as<std::uint8_t>() + cursor,
                                     filled - cursor, &payload, &needed, &what);
    if (fit == RecordFit::Whole) {
      range.begins.push_back(cursor);
      cursor += payload + shape_.frame_bytes();
      continue;
    }
    if (fit == RecordFit::NeedsMore) {
      if (!range.begins.empty() && filled >= bytes) break;  // it begins the next range
      const std::uint64_t room = bytes - std::min<std::uint64_t>(bytes, filled);
      const std::size_t got =
          read_more(range, filled,
                    std::max<std::uint64_t>(std::min(kReadBytes, room), cursor + needed - filled));
      filled += got;
      if (got > 0) continue;
      what = ends_inside_record(file_, record_ + range.begins.size());
    }
    // What is behind good records is said when it is asked for.
    if (range.begins.empty()) lost_to_ = what;
    break;
  }
  record_ += range.begins.size();
  byte_ += cursor;
  const auto* const read = range.bytes.as<std::uint8_t>();
  rest_.assign(read + cursor, read + (at_end() ? cursor : filled));
  range.begins.push_back(cursor);
  return range.rows() > 0;
}

std::size_t NormFileWalk::read_more(NormRange& range, std::size_t filled,
                                    std::uint64_t wanted) const {
  const std::uint64_t from = range.byte + filled;
  wanted = std::min(wanted, file_.size() - std::min(from, file_.size()));
  range.bytes.reserve(filled + wanted + NormRange::kSlack, true);
  return file_.read(from, range.bytes.as<std::uint8_t>() + filled, wanted);
}

std::optional<NormLoss> NormFileWalk::loss() const {
  if (!lost_to_.empty()) {
    return NormLoss{norm_message(*file_.path(), byte_, lost_to_ + file_.key_width_hint(layout_)),
                    file_.records() - record_, false};
  }
  if (!at_end() || byte_ >= file_.size()) return std::nullopt;
  return norm_surplus(file_, shape_, layout_, byte_);
}

}  // namespace hugectr
