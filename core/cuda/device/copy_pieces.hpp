// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/device/op.hpp"

namespace hugectr::cuda {

/// Bytes that are copied between places that the device reaches, pinned host memory among them.
struct CopiedPiece {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
};

/// Copies them in a launch for each 128; none reads or writes what another writes.
void copy_pieces(const OpContext& context, const char* name,
                 const std::vector<CopiedPiece>& pieces);

}  // namespace hugectr::cuda
