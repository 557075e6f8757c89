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
#include "core/cpp/data/norm_file_walk.hpp"

namespace hugectr {
namespace {

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

NormFileIndex index_norm_file(const std::string& path, const NormReading& reading) {
  NormFileIndex index;
  std::tie(index.size, index.changed) = stamp_of(path);
  try {
    NormFileWalk walk(std::make_shared<const std::string>(path), reading.shape, reading.layout);
    index.promised = walk.file().records();
    index.end_byte = walk.byte();
    const std::shared_ptr<NormRange> range = reading.ranges->take();
    while (walk.next(*range, reading.range_bytes)) {
      index.ranges.push_back({index.records, range->byte});
      index.records = walk.record();
      index.end_byte = walk.byte();
    }
    if (const auto loss = walk.loss()) {
      index.surplus = loss->surplus;
      index.damage = loss->message;
      index.lost = loss->samples;
    }
  } catch (const DataError& error) {
    // How many samples are lost nobody can say when the header is.
    index.damage = error.what();
    index.lost = std::max<std::uint64_t>(1, index.promised - index.records);
  }
  return index;
}

std::vector<NormFileIndex> index_norm_files(const std::vector<std::string>& paths,
                                            const NormReading& reading, IProcessGroup& processes,
                                            const std::vector<NormFileIndex>& known) {
  if (still_true(paths, known, processes)) return known;
  std::vector<char> mine;
  for (std::size_t f = processes.rank(); f < paths.size(); f += processes.size()) {
    write(index_norm_file(paths[f], reading), mine);
  }
  const std::vector<std::vector<char>> all = processes.all_gather_any(mine);
  std::vector<const char*> cursors;
  for (const std::vector<char>& blob : all) cursors.push_back(blob.data());
  std::vector<NormFileIndex> index;
  for (std::size_t f = 0; f < paths.size(); ++f) index.push_back(read(cursors[f % cursors.size()]));
  return index;
}

}  // namespace hugectr
