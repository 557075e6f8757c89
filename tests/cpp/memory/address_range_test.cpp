// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/address_range.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Bytes of address space the process has mapped.
std::size_t mapped_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmSize:") continue;
    std::size_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

/// For its life the process may map `more` bytes beyond what it has.
class AddressLimit {
 public:
  explicit AddressLimit(std::size_t more) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = mapped_bytes() + more;
    if (setrlimit(RLIMIT_AS, &limit) != 0) ADD_FAILURE() << std::strerror(errno);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

 private:
  rlimit before_{};
};

#ifdef __SANITIZE_THREAD__
#define SKIP_WHERE_ADDRESSES_ARE_GIVEN() GTEST_SKIP() << "this sanitizer gives all addresses"
#else
#define SKIP_WHERE_ADDRESSES_ARE_GIVEN()
#endif

TEST(AddressRange, IsReservedAsAWholeWithoutALimit) {
  const std::size_t before = mapped_bytes();
  std::optional<AddressRange> range = AddressRange::make(512 * kMiB, 2 * kMiB);
  ASSERT_TRUE(range);
  EXPECT_FALSE(range->claimed());
  EXPECT_GE(mapped_bytes(), before + 512 * kMiB);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range->data()) % (2 * kMiB), 0u);
  range.reset();
  EXPECT_LT(mapped_bytes(), before + 64 * kMiB);
}

TEST(AddressRange, TakesNothingBeforeItIsOpenedWhereThereIsALimit) {
  SKIP_WHERE_ADDRESSES_ARE_GIVEN();
  const AddressLimit limit(64 * kMiB);
  const std::size_t before = mapped_bytes();
  std::vector<AddressRange> ranges;
  for (int i = 0; i < 8; ++i) {
    std::optional<AddressRange> range = AddressRange::make(std::size_t{16} << 30, 2 * kMiB);
    ASSERT_TRUE(range) << i;
    EXPECT_TRUE(range->claimed());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range->data()) % (2 * kMiB), 0u);
    ranges.push_back(std::move(*range));
  }
  EXPECT_LT(mapped_bytes(), before + 8 * kMiB);
  for (std::size_t to = kMiB; to <= 4 * kMiB; to += kMiB) {  // all of them grow, turn by turn
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      ASSERT_TRUE(ranges[i].open(to - kMiB, to)) << std::strerror(errno);
      char* const piece = static_cast<char*>(ranges[i].data()) + to - kMiB;
      for (std::size_t at = 0; at < kMiB; at += 509) ASSERT_EQ(piece[at], 0);
      std::memset(piece, static_cast<int>(i + 1), kMiB);
    }
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const char* const data = static_cast<const char*>(ranges[i].data());
    for (std::size_t at = 0; at < 4 * kMiB; at += 509) {
      ASSERT_EQ(data[at], static_cast<char>(i + 1));
    }
  }
  EXPECT_FALSE(ranges[0].open(4 * kMiB, 80 * kMiB));
  EXPECT_TRUE(ranges[0].open(4 * kMiB, 5 * kMiB));
  ranges.clear();
  EXPECT_LT(mapped_bytes(), before + 8 * kMiB);
}

TEST(AddressRange, AddressesAreUsedAgain) {
  SKIP_WHERE_ADDRESSES_ARE_GIVEN();
  const AddressLimit limit(64 * kMiB);
  for (int i = 0; i < 100'000; ++i) {  // 100,000 times 16 GiB are more than there is
    const std::optional<AddressRange> range = AddressRange::make(std::size_t{16} << 30, 4096);
    ASSERT_TRUE(range) << i;
  }
  EXPECT_FALSE(AddressRange::make(std::size_t{1} << 60, 4096));
}

TEST(AddressRange, GrowableMemoryStaysWhereItIsAndNamesTheLimit) {
  SKIP_WHERE_ADDRESSES_ARE_GIVEN();
  const AddressLimit limit(64 * kMiB);
  const auto memory = make_host_memory_resource()->reserve_growable(std::size_t{1} << 40, "rows");
  EXPECT_EQ(memory->reserved(), std::size_t{1} << 40);
  char* const data = static_cast<char*>(memory->data());
  memory->grow(1000);
  data[999] = 3;
  memory->grow(20 * kMiB);
  EXPECT_EQ(memory->data(), data);
  EXPECT_EQ(data[999], 3);
  EXPECT_EQ(data[20 * kMiB - 1], 0);
  try {
    memory->grow(100 * kMiB);
    FAIL();
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("ulimit -v"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("'rows'"), std::string::npos) << e.what();
  }
  EXPECT_EQ(data[999], 3);
  EXPECT_GE(memory->size(), 20 * kMiB);
}

}  // namespace
}  // namespace hugectr
