// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/cpp/comm/process_group.hpp"
#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/block_format.hpp"

namespace hugectr {

/// Norm files for a job whose processes share the reading (make_norm_format()): ranges of records
/// from an index that the processes make together. `framed`: with checksums.
std::unique_ptr<IBlockFormat> make_norm_ranges(const std::string& file_list,
                                               const InputLayout& layout, bool framed,
                                               OnBadData on_bad_data, std::uint64_t range_bytes,
                                               std::shared_ptr<IProcessGroup> processes);

}  // namespace hugectr
