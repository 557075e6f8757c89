// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace hugectr {

/// Bytes that are copied between places that a device reaches, pinned host memory among them.
struct CopiedBytes {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
};

}  // namespace hugectr
