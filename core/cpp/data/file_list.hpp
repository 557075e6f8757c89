// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Paths of a file list: line 1 their number, then one a line. Throws DataError for a list that is
/// missing, no regular file, too large, empty, no UTF-8, has no positive number in line 1, or fewer
/// paths than that.
HCTR_API std::vector<std::string> read_file_list(const std::string& path);

}  // namespace hugectr
