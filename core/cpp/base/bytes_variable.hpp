// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// A number of bytes that an environment variable says; not set, `usual`. Throws InvalidArgument
/// for one that is no positive number.
HCTR_API std::size_t bytes_variable(const char* name, std::size_t usual);

}  // namespace hugectr
