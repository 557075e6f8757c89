// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace hugectr::fuzzing {

/// A small valid input under the name of its file.
using Seeds = std::vector<std::pair<std::string, std::string>>;

/// Inputs that a target reads to the end. @throws InvalidArgument for a name that is no target
Seeds make_seeds(const std::string& target);
/// The same of rows on disk: each has four rows.
Seeds rows_seeds();

}  // namespace hugectr::fuzzing
