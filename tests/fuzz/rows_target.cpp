// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/segment_snapshot.hpp"
#include "tests/fuzz/fuzz_case.hpp"
#include "tests/fuzz/require.hpp"

namespace hugectr::fuzzing {
namespace {

SegmentKind kind() { return {"fuzz", GroupShape(100), 4096 * 9, std::make_shared<FileCalls>()}; }

/// Checksums are put right: mutations then reach what lies behind them.
template <class Bytes>
void put_right(Bytes& bytes, std::size_t at, std::size_t begin) {
  const std::uint32_t sum = crc32(bytes.data() + begin, bytes.size() - begin);
  std::memcpy(bytes.data() + at, &sum, sizeof(sum));
}

std::uint64_t read_index(std::string bytes) {
  constexpr std::size_t kSum = 12, kBegin = 16, kMostRows = 1000;
  if (bytes.size() > kBegin) put_right(bytes, kSum, kBegin);
  Snapshot snapshot = parse_snapshot_index(kind(), bytes, "index", kMostRows);
  const std::size_t rows = snapshot.locations.size();
  require(rows <= kMostRows, "as many rows as the table may have");
  require(snapshot_index(kind(), snapshot).size() == bytes.size(), "nothing but what it says");
  SegmentLedger ledger(kind(), kMostRows, 100);
  ledger.restore(std::move(snapshot.segments), std::move(snapshot.locations));
  require(ledger.rows_alive() <= rows, "a row lies in one place");
  for (std::uint32_t row = 0; row < rows; ++row) {
    const RowLocation at = ledger.find(row);
    require(at.segment == 0 || at.position < kind().shape.capacity(), "a place in a group");
  }
  return rows;
}

std::uint64_t read_group(std::string_view input) {
  const GroupShape shape = kind().shape;
  std::vector<std::byte> group(shape.bytes());
  std::memcpy(group.data(), input.data(), std::min(input.size(), group.size()));
  put_right(group, 0, 4);
  std::uint32_t segment = 0, place = 0;
  std::memcpy(&segment, &group[8], 4);
  std::memcpy(&place, &group[12], 4);
  if (!shape.damage(group.data(), segment, place).empty()) return 0;
  const std::size_t rows = shape.rows(group.data());
  require(rows > 0 && rows <= shape.capacity(), "rows that are in the group");
  for (std::size_t p = 0; p < rows; ++p) {
    static_cast<void>(shape.number(group.data(), p));
    static_cast<void>(shape.row(group.data(), p)[shape.row_bytes() - 1]);
  }
  return rows;
}

}  // namespace

std::uint64_t fuzz_rows(std::string_view input) {
  if (input.empty()) return 0;
  try {
    const std::string_view rest = input.substr(1);
    return input[0] == 'i' ? read_index(std::string(rest)) : read_group(rest);
  } catch (const DataError&) {
    return 0;
  }
}

}  // namespace hugectr::fuzzing
