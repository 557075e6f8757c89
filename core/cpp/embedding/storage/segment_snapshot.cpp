// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/segment_snapshot.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/share_file.hpp"

namespace hugectr {
namespace {

constexpr char kIndexMagic[9] = "HCTRINDX";
constexpr std::uint32_t kIndexVersion = 1;

struct IndexHeader {
  char magic[8];
  std::uint32_t version, crc;
  std::uint32_t row_bytes, table;
  std::uint64_t segments, rows;
};
static_assert(sizeof(IndexHeader) == 40);
constexpr std::size_t kIndexSumBegins = 16;

struct IndexSegment {
  std::uint32_t number, groups;
  std::uint64_t owner;
};
static_assert(sizeof(IndexSegment) == 16);

[[noreturn]] void throw_bad_index(const SegmentKind& kind, const std::string& path,
                                  const std::string& why) {
  throw DataError(concat("table '", kind.table, "': the index of rows on disk '", path,
                         "', byte 0: ", why, "; use another checkpoint"));
}

void remove_files(const std::vector<std::string>& made) noexcept {
  for (const std::string& path : made) ::unlink(path.c_str());
}

/// The index under a name that says it is not all there yet, then under its own.
void write_index(const SegmentKind& kind, const std::string& folder, const std::string& bytes) {
  const std::string path = folder + "/" + kSnapshotIndex, part = path + ".part";
  try {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    errno = 0;
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) throw_file_error("can not write", kind.table, part, 0, errno != 0 ? errno : EIO);
    sync_file(kind, part);
    if (::rename(part.c_str(), path.c_str()) != 0) {
      throw_file_error("can not rename", kind.table, part, 0, errno);
    }
  } catch (...) {
    ::unlink(part.c_str());
    throw;
  }
}

}  // namespace

std::string snapshot_index(const SegmentKind& kind, const Snapshot& snapshot) {
  IndexHeader header{};
  std::memcpy(header.magic, kIndexMagic, sizeof(header.magic));
  header.version = kIndexVersion;
  header.row_bytes = static_cast<std::uint32_t>(kind.shape.row_bytes());
  header.table = crc32(kind.table.data(), kind.table.size());
  header.segments = snapshot.segments.size();
  header.rows = snapshot.locations.size();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.reserve(sizeof(header) + header.segments * sizeof(IndexSegment) +
                header.rows * sizeof(RowLocation));
  for (const auto& [number, segment] : snapshot.segments) {
    const IndexSegment line{number, static_cast<std::uint32_t>(segment.groups), segment.owner};
    bytes.append(reinterpret_cast<const char*>(&line), sizeof(line));
  }
  bytes.append(reinterpret_cast<const char*>(snapshot.locations.data()),
               snapshot.locations.size() * sizeof(RowLocation));
  header.crc = crc32(bytes.data() + kIndexSumBegins, bytes.size() - kIndexSumBegins);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Snapshot parse_snapshot_index(const SegmentKind& kind, std::string_view bytes,
                              const std::string& path, std::size_t max_rows) {
  IndexHeader header{};
  if (bytes.size() < sizeof(header)) throw_bad_index(kind, path, "it ends in its head");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kIndexMagic, sizeof(header.magic)) != 0 ||
      header.version != kIndexVersion) {
    throw_bad_index(kind, path, "it is no index of this version");
  }
  if (header.crc != crc32(bytes.data() + kIndexSumBegins, bytes.size() - kIndexSumBegins)) {
    throw_bad_index(kind, path, "it is damaged");
  }
  if (header.row_bytes != kind.shape.row_bytes() ||
      header.table != crc32(kind.table.data(), kind.table.size())) {
    throw_bad_index(kind, path, "it is of another table or of rows of another size");
  }
  const std::size_t left = bytes.size() - sizeof(header);
  const bool fits =
      header.segments <= left / sizeof(IndexSegment) && header.rows <= left / sizeof(RowLocation) &&
      header.segments * sizeof(IndexSegment) + header.rows * sizeof(RowLocation) == left;
  if (!fits) throw_bad_index(kind, path, "its length is not that of its segments and rows");
  if (header.rows > max_rows) {
    throw_bad_index(kind, path, concat("it has ", header.rows, " rows of at most ", max_rows));
  }
  Snapshot snapshot;
  const char* at = bytes.data() + sizeof(header);
  for (std::uint64_t i = 0; i < header.segments; ++i, at += sizeof(IndexSegment)) {
    IndexSegment line{};
    std::memcpy(&line, at, sizeof(line));
    SegmentLedger::Segment segment;
    segment.groups = line.groups;
    segment.owner = line.owner;
    const bool is_new = snapshot.segments.emplace(line.number, segment).second;
    if (line.number == 0 || line.number == UINT32_MAX || !is_new || line.groups > UINT16_MAX) {
      throw_bad_index(kind, path, concat("its segment ", line.number, " can not be one"));
    }
  }
  snapshot.locations.resize(header.rows);
  if (header.rows > 0) {
    std::memcpy(snapshot.locations.data(), at, header.rows * sizeof(RowLocation));
  }
  return snapshot;
}

void write_snapshot(const SegmentKind& kind, const std::string& folder,
                    const std::map<std::uint32_t, SegmentLedger::Segment>& segments,
                    std::vector<RowLocation> locations) {
  make_folder(kind, folder);
  Snapshot snapshot{{}, std::move(locations)};
  std::vector<std::string> made;
  try {
    for (const auto& [number, segment] : segments) {
      if (segment.alive == 0) continue;
      const std::string path = folder + "/" + SegmentFile::name_of(number);
      made.reserve(made.size() + 1);  // what is made is known to be
      share_file(kind, segment.file->path(), path);
      made.push_back(path);
      snapshot.segments.emplace(number, segment);
    }
    // What the index names is there, and has its name, whatever happens once the index is seen.
    sync_folder(kind, folder);
    write_index(kind, folder, snapshot_index(kind, snapshot));
  } catch (...) {
    remove_files(made);  // on a full disk they would hold its room
    throw;
  }
  sync_folder(kind, folder);
}

Snapshot read_snapshot(const SegmentKind& kind, const std::string& from, const std::string& to,
                       std::size_t max_rows) {
  const std::string path = from + "/" + kSnapshotIndex;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw_bad_index(kind, path, "there is no such file");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file || !bytes) throw_bad_index(kind, path, "it can not be read");
  Snapshot snapshot = parse_snapshot_index(kind, std::move(bytes).str(), path, max_rows);
  std::vector<std::string> made;
  try {
    for (auto& [number, segment] : snapshot.segments) {
      const std::string name = concat("/", SegmentFile::name_of(number)), path = to + name;
      made.reserve(made.size() + 1);
      share_file(kind, from + name, path);
      made.push_back(path);
      segment.file = SegmentFile::open(kind, to, number, segment.owner);
    }
  } catch (...) {
    remove_files(made);
    throw;
  }
  return snapshot;
}

}  // namespace hugectr
