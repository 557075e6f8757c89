// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/cpp/embedding/storage/segment_ledger.hpp"

namespace hugectr {

/// A store as a whole: where each row lies, in which segments.
struct Snapshot {
  std::map<std::uint32_t, SegmentLedger::Segment> segments;
  std::vector<RowLocation> locations;  ///< by row
};

/// The file of a snapshot beside its segments:
///
///     0   8 bytes "HCTRINDX", uint32 version (1), uint32 CRC-32 of all that follows,
///     16  uint32 bytes of a row, uint32 CRC-32 of the table's name, uint64 segments, uint64 rows
///     40  a segment: uint32 number, uint32 groups, uint64 owner
///         a row: uint32 segment (0: nowhere), uint16 group, uint16 position
inline constexpr const char* kSnapshotIndex = "index";
std::string snapshot_index(const SegmentKind& kind, const Snapshot& snapshot);
/// Its segments without files. Throws DataError naming `path`.
Snapshot parse_snapshot_index(const SegmentKind& kind, std::string_view bytes,
                              const std::string& path, std::size_t max_rows);

/// Links or copies the segments into a folder, which is made, and writes the index last: a folder
/// without one is none. What the index names is on the disk before the index is. Segments must be
/// sealed and synced. A call that throws before the index is there takes away what it has made.
void write_snapshot(const SegmentKind& kind, const std::string& folder,
                    const std::map<std::uint32_t, SegmentLedger::Segment>& segments,
                    std::vector<RowLocation> locations);
/// The same the other way: the segments of `from` become files of `to`.
Snapshot read_snapshot(const SegmentKind& kind, const std::string& from, const std::string& to,
                       std::size_t max_rows);

}  // namespace hugectr
