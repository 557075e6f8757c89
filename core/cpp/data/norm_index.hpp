// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/comm/process_group.hpp"
#include "core/cpp/data/norm_reading.hpp"

namespace hugectr {

/// Where the records of a Norm file lie, as one scan found it: from boundary to boundary, without a
/// look at checksums or contents.
struct NormFileIndex {
  /// Records from first_record on, the next range's first excluded.
  struct Range {
    std::uint64_t first_record = 0, byte = 0;
  };
  std::uint64_t promised = 0;  ///< records, by the header
  std::uint64_t records = 0;   ///< that can be reached
  std::uint64_t end_byte = 0;  ///< behind the last of them
  std::uint64_t lost = 0;      ///< samples that OnBadData::Skip counts as bad
  bool surplus = false;        ///< the damage is that bytes follow the last record
  std::string damage;          ///< what the first damage is; empty: none
  std::uint64_t size = 0;      ///< of the file when it was scanned
  std::int64_t changed = 0;    ///< its time of change then, in nanoseconds
  std::vector<Range> ranges;   ///< as NormFileWalk finds them, 16 bytes of memory a range
};

/// Scans one file. A file that can not be read has damage and no records.
NormFileIndex index_norm_file(const std::string& path, const NormReading& reading);

/// The index of all files, the same on all processes, each file scanned by one of them (the f-th by
/// process f % size). Collective. Files that have not changed keep what `known` (of the same paths,
/// or empty) says when that is true of all of them, on all processes.
std::vector<NormFileIndex> index_norm_files(const std::vector<std::string>& paths,
                                            const NormReading& reading, IProcessGroup& processes,
                                            const std::vector<NormFileIndex>& known);

}  // namespace hugectr
