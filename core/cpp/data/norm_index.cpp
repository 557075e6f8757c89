// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_index.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/random.hpp"
#include "core/cpp/data/norm_boundary.hpp"
#include "core/cpp/data/norm_file.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kIndexReadBytes = 1 << 20;

/// Walks the records of one file from boundary to boundary.
class Scan {
 public:
  Scan(const NormFile& file, const NormRecordShape& shape) : file_(file), shape_(shape) {}

  /// Fills records, end_byte and ranges. Returns what is wrong with the record behind the last one
  /// reached, or nothing.
  std::string run(std::uint64_t range_bytes, NormFileIndex& index) {
    index.end_byte = base_ = file_.first_record();
    for (; index.records < file_.records(); ++index.records) {
      std::size_t payload = 0;
      std::string what = find_end(index.records, &payload);
      if (!what.empty()) return what;
      const std::uint64_t begin = base_ + cursor_;
      if (index.ranges.empty() || begin - index.ranges.back().byte >= range_bytes) {
        index.ranges.push_back({index.records, begin});
      }
      cursor_ += payload + shape_.frame_bytes();
      index.end_byte = base_ + cursor_;
    }
    return {};
  }

 private:
  std::string find_end(std::uint64_t record, std::size_t* payload) {
    while (true) {
      std::size_t needed = 0;
      std::string what;
      const RecordFit fit =
          fit_record(shape_, bytes_.data() + cursor_, filled_ - cursor_, payload, &needed, &what);
      if (fit == RecordFit::Whole) return {};
      if (fit == RecordFit::Lost) return what;
      if (!read_more(needed)) return ends_inside_record(file_, record);
    }
  }

  bool read_more(std::size_t needed) {
    const std::size_t left = filled_ - cursor_;
    std::memmove(bytes_.data(), bytes_.data() + cursor_, left);
    base_ += cursor_;
    cursor_ = 0;
    bytes_.resize(std::max({bytes_.size(), kIndexReadBytes, needed}));
    const std::size_t got = file_.read(base_ + left, bytes_.data() + left, bytes_.size() - left);
    filled_ = left + got;
    return got > 0;
  }

  const NormFile& file_;
  const NormRecordShape& shape_;
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(kIndexReadBytes);
  std::uint64_t base_ = 0;  ///< where bytes_ begin in the file
  std::size_t cursor_ = 0, filled_ = 0;
};

/// Size and time of change; zeros when there is no such file.
std::pair<std::uint64_t, std::int64_t> stamp_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return {0, 0};
  return {static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_mtim.tv_sec} * 1000000000 + status.st_mtim.tv_nsec};
}

template <class T>
void put(std::vector<char>& bytes, const T& value) {
  const auto* from = reinterpret_cast<const char*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(T));
}

template <class T>
T take(const char*& from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  from += sizeof(T);
  return value;
}

void write(const NormFileIndex& index, std::vector<char>& bytes) {
  for (const std::uint64_t value :
       {index.promised, index.records, index.end_byte, index.lost, std::uint64_t{index.surplus},
        index.size, static_cast<std::uint64_t>(index.changed), index.damage.size(),
        index.ranges.size()}) {
    put(bytes, value);
  }
  bytes.insert(bytes.end(), index.damage.begin(), index.damage.end());
  for (const NormFileIndex::Range& range : index.ranges) put(bytes, range);
}

NormFileIndex read(const char*& from) {
  NormFileIndex index;
  const auto number = [&] { return take<std::uint64_t>(from); };
  index.promised = number();
  index.records = number();
  index.end_byte = number();
  index.lost = number();
  index.surplus = number() != 0;
  index.size = number();
  index.changed = static_cast<std::int64_t>(number());
  const std::uint64_t damage = number(), ranges = number();
  index.damage.assign(from, damage);
  from += damage;
  for (std::uint64_t r = 0; r < ranges; ++r) {
    index.ranges.push_back(take<NormFileIndex::Range>(from));
  }
  return index;
}

/// Whether all files are as they were when `known` was made, as all processes see those that are
/// theirs to look at. Throws when the processes were given different lists.
bool still_true(const std::vector<std::string>& paths, const std::vector<NormFileIndex>& known,
                IProcessGroup& processes) {
  struct View {
    std::uint64_t list = 0, unchanged = 0;
  } mine;
  for (const std::string& path : paths) {
    mine.list = mix_key(mine.list, std::hash<std::string>()(path));
  }
  mine.unchanged = known.size() == paths.size();
  for (std::size_t f = processes.rank(); mine.unchanged && f < paths.size();
       f += processes.size()) {
    mine.unchanged = stamp_of(paths[f]) == std::pair(known[f].size, known[f].changed);
  }
  std::vector<View> all(processes.size());
  processes.all_gather(&mine, sizeof(mine), all.data());
  bool unchanged = true;
  for (const View& view : all) {
    if (view.list != all.front().list) {
      throw DataError(
          "Norm data: the processes of the job found different paths in the file list: give all "
          "of them the same list, or read with replicated=True");
    }
    unchanged &= view.unchanged == 1;
  }
  return unchanged;
}

}  // namespace

NormFileIndex index_norm_file(const std::string& path, const NormRecordShape& shape,
                              const InputLayout& layout, std::uint64_t range_bytes) {
  NormFileIndex index;
  std::tie(index.size, index.changed) = stamp_of(path);
  try {
    const NormFile file(std::make_shared<const std::string>(path), shape, layout);
    index.promised = file.records();
    const std::string what = Scan(file, shape).run(range_bytes, index);
    if (!what.empty()) {
      index.damage = norm_message(path, index.end_byte, what + file.key_width_hint(layout));
      index.lost = index.promised - index.records;
    } else if (index.end_byte < file.size()) {
      const NormSurplus surplus = norm_surplus(file, shape, layout, index.end_byte);
      index.surplus = true;
      index.damage = surplus.message;
      index.lost = surplus.samples;
    }
  } catch (const DataError& error) {
    // How many samples are lost nobody can say when the header is.
    index.damage = error.what();
    index.lost = std::max<std::uint64_t>(1, index.promised - index.records);
  }
  return index;
}

std::vector<NormFileIndex> index_norm_files(const std::vector<std::string>& paths,
                                            const NormRecordShape& shape, const InputLayout& layout,
                                            std::uint64_t range_bytes, IProcessGroup& processes,
                                            const std::vector<NormFileIndex>& known) {
  if (still_true(paths, known, processes)) return known;
  std::vector<char> mine;
  for (std::size_t f = processes.rank(); f < paths.size(); f += processes.size()) {
    write(index_norm_file(paths[f], shape, layout, range_bytes), mine);
  }
  const std::vector<std::vector<char>> all = processes.all_gather_any(mine);
  std::vector<const char*> cursors;
  for (const std::vector<char>& blob : all) cursors.push_back(blob.data());
  std::vector<NormFileIndex> index;
  for (std::size_t f = 0; f < paths.size(); ++f) index.push_back(read(cursors[f % cursors.size()]));
  return index;
}

}  // namespace hugectr
