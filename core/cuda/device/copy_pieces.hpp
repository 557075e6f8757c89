// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/memory/copied_bytes.hpp"

namespace hugectr::cuda {

/// Copies them in a launch for each 128; none reads or writes what another writes.
void copy_pieces(const OpContext& context, const char* name,
                 const std::vector<CopiedBytes>& pieces);

}  // namespace hugectr::cuda
