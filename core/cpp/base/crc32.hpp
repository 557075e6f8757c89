// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// CRC-32 of ISO 3309 (that of zlib and PNG: reflected, polynomial 0xEDB88320) of some bytes, going
/// on from the sum of those before them.
HCTR_API std::uint32_t crc32(const void* data, std::size_t bytes, std::uint32_t before = 0);

}  // namespace hugectr
