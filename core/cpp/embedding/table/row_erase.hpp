// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/cpp/embedding/table/table.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// Rows of one device by number.
struct FoundRows {
  TensorRef rows;  ///< (n) uint32, on the device, each once; empty: none
  std::shared_ptr<DeviceBuffer2> memory;
};

/// What Table::erase() is to be given to forget the rows of these keys (and slots, where they are
/// part of identity) on one device; keys without a visible row are passed over. Waits.
FoundRows rows_to_erase(Table& table, const std::vector<std::int64_t>& keys,
                        const std::vector<std::uint32_t>& slots);

/// Keys, and slots where they are part of identity.
struct RowIdentities {
  std::vector<std::int64_t> keys;
  std::vector<std::uint32_t> slots;
};

/// Of rows by number, (n) uint32 on the device. Waits.
RowIdentities identities_of(const Table& table, const TensorRef& rows);

}  // namespace hugectr
