// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/allocators.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {
namespace {

TEST(HostMemory, AllocationsAreAlignedAndWritable) {
  HostAllocator allocator;
  EXPECT_TRUE(allocator.device().is_host());
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{65}, std::size_t{4097}, std::size_t{9} << 20}) {
    void* const data = allocator.allocate(bytes, "test");
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % MemoryResource::kAlignment, 0u);
    std::memset(data, 0xab, bytes);
    allocator.deallocate(data, bytes);
  }
}

TEST(HostMemory, BelongsToItsDevice) {
  const DeviceId device{DeviceType::Cpu, 3};
  EXPECT_EQ(make_host_memory_resource(device)->device(), device);
}

TEST(HostMemory, AbsurdSizesNameOwnerAndBytes) {
  const auto resource = make_host_memory_resource();
  for (const std::size_t bytes : {std::size_t{1} << 50, SIZE_MAX - 100}) {
    try {
      resource->allocate(bytes, "table 'wide'");
      FAIL();
    } catch (const OutOfMemory& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("table 'wide'"), std::string::npos) << text;
      EXPECT_NE(text.find(std::to_string(bytes)), std::string::npos) << text;
    }
  }
  EXPECT_THROW(resource->reserve_growable(SIZE_MAX - 100, "x"), OutOfMemory);
}

TEST(GrowableMemory, GrowsInPlaceAndIsZero) {
  const auto resource = make_host_memory_resource();
  const auto memory = resource->reserve_growable(std::size_t{64} << 20, "rows");
  EXPECT_EQ(memory->size(), 0u);
  EXPECT_GE(memory->reserved(), std::size_t{64} << 20);
  char* const data = static_cast<char*>(memory->data());
  std::size_t used = 0;
  for (std::size_t bytes = 100; bytes <= std::size_t{64} << 20; bytes = bytes * 3 + 1) {
    memory->grow(bytes);
    ASSERT_EQ(memory->data(), data);
    ASSERT_GE(memory->size(), bytes);
    for (std::size_t i = used; i < memory->size(); i += 509) ASSERT_EQ(data[i], 0);
    for (std::size_t i = 0; i < used; i += 509) ASSERT_EQ(data[i], 7);
    std::memset(data, 7, memory->size());
    used = memory->size();
  }
  memory->grow(10);
  EXPECT_EQ(memory->size(), used);
}

TEST(GrowableMemory, ExhaustionNamesTheOwnerAndLeavesItUsable) {
  const auto memory = make_host_memory_resource()->reserve_growable(1 << 20, "table 'deep'");
  memory->grow(4096);
  static_cast<char*>(memory->data())[5] = 9;
  try {
    memory->grow((1 << 20) + 1);
    FAIL();
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("table 'deep'"), std::string::npos);
  }
  memory->grow(1 << 20);
  EXPECT_EQ(static_cast<char*>(memory->data())[5], 9);
}

/// What it is filled with is asked once: in a process of its own.
TEST(HostMemoryDeathTest, IsFilledWithWhatTheEnvironmentSays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("HUGECTR_FILL_MEMORY", "127", 1);
  EXPECT_EXIT(
      {
        const auto memory = make_host_memory_resource();
        const auto* const data = static_cast<unsigned char*>(memory->allocate(1000, "test"));
        const bool filled = std::count(data, data + 1000, 127) == 1000;
        std::exit(filled && fill_of_memory() == 127 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  unsetenv("HUGECTR_FILL_MEMORY");
  EXPECT_FALSE(fill_of_memory());
}

TEST(GrowableMemory, MoreThanTheMachineHasIsRefusedBeforeItIsTouched) {
  const std::size_t too_much = 2 * static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                               static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto memory = make_host_memory_resource()->reserve_growable(too_much, "huge");
  EXPECT_THROW(memory->grow(too_much), OutOfMemory);
  memory->grow(1);
}

TEST(GrowableMemory, PiecesThatAreMoreThanTheMachineHasAreTried) {
  const auto memory = make_host_memory_resource()->reserve_growable(
      4 * static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
          static_cast<std::size_t>(sysconf(_SC_PAGESIZE)),
      "growing");
  const std::size_t piece = memory->reserved() / 8;
  for (std::size_t i = 1; i <= 5; ++i) memory->grow(i * piece);  // pages that nobody touches
  EXPECT_GE(memory->size(), 5 * piece);
  static_cast<char*>(memory->data())[5 * piece - 1] = 1;
}

TEST(GrowableMemory, NothingToReserveIsFine) {
  const auto memory = make_host_memory_resource()->reserve_growable(0, "empty");
  EXPECT_NE(memory->data(), nullptr);
  EXPECT_EQ(memory->size(), 0u);
}

}  // namespace
}  // namespace hugectr
