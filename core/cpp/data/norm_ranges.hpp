// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/cpp/comm/process_group.hpp"
#include "core/cpp/data/block_format.hpp"
#include "core/cpp/data/norm_source.hpp"

namespace hugectr {

/// Norm files as blocks, for a job whose processes share the reading: ranges of records from an
/// index that the processes make together (each scans its part of the files once). Samples, bad
/// samples, errors and positions are those of make_norm_source(); only a list of whose files
/// nothing can be read is refused when it is set, not when its first batch is asked for.
/// set_source() is collective, "" makes a new index when a file has changed. `processes` is a group
/// of its own.
HCTR_API std::unique_ptr<IBlockFormat> make_norm_ranges(
    const std::string& file_list, const InputLayout& layout, Check check, OnBadData on_bad_data,
    std::shared_ptr<IProcessGroup> processes, std::uint64_t range_bytes = std::uint64_t{1} << 20);

}  // namespace hugectr
