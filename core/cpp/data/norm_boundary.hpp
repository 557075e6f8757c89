// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/cpp/data/norm_file.hpp"

/// Where the records of a Norm file end, and what is said when that can not be found: the same for
/// reading a file from its beginning and for an index of it.
namespace hugectr {

/// Ends a message about damage that can be skipped.
inline constexpr const char* kNormWayOut = "; restore the file, or read with on_bad_data=\"skip\"";

enum class RecordFit { Whole, NeedsMore, Lost };

/// Looks for the end of the record at p. Whole: *payload is its size without the frame. NeedsMore:
/// at least *needed bytes are. Lost: *what says why nobody knows where the next record begins.
RecordFit fit_record(const NormRecordShape& shape, const std::uint8_t* p, std::size_t available,
                     std::size_t* payload, std::size_t* needed, std::string* what);

std::string ends_inside_record(const NormFile& file, std::uint64_t record);

/// What can not be read of a file from some place on.
struct NormLoss {
  std::string message;
  std::uint64_t samples;  ///< that are lost, at least
  bool surplus;           ///< bytes follow the last record; else a record is damaged
};
/// Bytes behind the last record.
NormLoss norm_surplus(const NormFile& file, const NormRecordShape& shape, const InputLayout& layout,
                      std::uint64_t end_of_records);

/// For a file list from which nothing at all can be read.
std::string no_norm_samples(const std::string& file_list, std::size_t files,
                            const std::string& first_damage);

}  // namespace hugectr
