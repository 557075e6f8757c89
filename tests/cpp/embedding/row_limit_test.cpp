// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_limit.hpp"

#include <gtest/gtest.h>

namespace hugectr {
namespace {

/// Memory of a size, of which nothing is ever asked for.
class SizedMemory final : public MemoryResource {
 public:
  explicit SizedMemory(std::size_t bytes) : bytes_(bytes) {}
  DeviceId device() const override { return DeviceId::host(); }
  std::size_t most_bytes() const override { return bytes_; }
  void* allocate(std::size_t, std::string_view) override { return nullptr; }
  void deallocate(void*, std::size_t) noexcept override {}
  std::unique_ptr<GrowableMemory> reserve_growable(std::size_t, std::string_view) override {
    return nullptr;
  }

 private:
  std::size_t bytes_;
};

constexpr std::size_t kGiB = std::size_t{1} << 30;

/// 512 bytes.
RowParts wide_row() {
  RowParts parts;
  parts.vec_size = 64;
  parts.states = {64};
  return parts;
}

/// 4 bytes.
RowParts narrow_row() {
  RowParts parts;
  parts.vec_size = 1;
  return parts;
}

TEST(RowLimit, ATableMayFillTheDeviceWithAllPartsOfItsRows) {
  const RowBudget limit = rows_without_budget(SizedMemory(80 * kGiB), wide_row(), 8);
  EXPECT_EQ(limit.rows, 80 * kGiB / 512);
  EXPECT_NE(limit.way_out.find("in this device's memory"), std::string::npos);
}

TEST(RowLimit, TablesTogetherLeaveAddresses) {
  constexpr std::size_t kTables = 8000;  // 1,000 on each of 8 devices with 2 TiB
  const RowBudget limit = rows_without_budget(SizedMemory(2048 * kGiB), wide_row(), kTables);
  EXPECT_LE(limit.rows * (512 + 16) * kTables, std::size_t{1} << 46);
  EXPECT_GE(limit.rows * 512, 2 * kGiB) << "each has room for millions of rows";
  EXPECT_NE(limit.way_out.find("max_vocabulary_size_per_gpu"), std::string::npos);
}

TEST(RowLimit, IsARowAtLeastAndHasNumbersForAll) {
  EXPECT_EQ(rows_without_budget(SizedMemory(1), wide_row(), 1).rows, 1U);
  EXPECT_EQ(rows_without_budget(SizedMemory(kGiB), narrow_row(), std::size_t{1} << 62).rows, 1U);
  const RowBudget all = rows_without_budget(SizedMemory(65536 * kGiB), narrow_row(), 1);
  EXPECT_EQ(all.rows, 0xfffffffeU);
  EXPECT_NE(all.way_out.find("the most that a device can have"), std::string::npos);
}

}  // namespace
}  // namespace hugectr
