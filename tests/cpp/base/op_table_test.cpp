// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/op_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

void kernel_a() {}
void kernel_b() {}

TEST(OpTable, FindsWhatWasAdded) {
  auto& table = OpTable::instance();
  table.add("table_test_found", DeviceType::Cpu, &kernel_a);
  table.add("table_test_found", DeviceType::Cuda, &kernel_b);
  EXPECT_EQ(table.find("table_test_found", DeviceType::Cpu), &kernel_a);
  EXPECT_EQ(table.find("table_test_found", DeviceType::Cuda), &kernel_b);
  EXPECT_TRUE(table.has("table_test_found", DeviceType::Cpu));
  EXPECT_FALSE(table.has("table_test_other", DeviceType::Cpu));
}

TEST(OpTable, MissingKernelNamesOpDeviceAndTheWayOut) {
  auto& table = OpTable::instance();
  table.add("table_test_cpu_only", DeviceType::Cpu, &kernel_a);
  try {
    table.find("table_test_cpu_only", DeviceType::Cuda);
    FAIL();
  } catch (const DeviceError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("table_test_cpu_only"), std::string::npos);
    EXPECT_NE(text.find("no kernel for cuda"), std::string::npos);
    EXPECT_NE(text.find("run on device \"cpu\""), std::string::npos);
  }
  EXPECT_THROW(table.find("table_test_nowhere", DeviceType::Cpu), DeviceError);
}

TEST(OpTable, SecondKernelForOneDeviceIsRefused) {
  auto& table = OpTable::instance();
  table.add("table_test_twice", DeviceType::Cpu, &kernel_a);
  EXPECT_THROW(table.add("table_test_twice", DeviceType::Cpu, &kernel_b), InvalidArgument);
  EXPECT_EQ(table.find("table_test_twice", DeviceType::Cpu), &kernel_a);
  EXPECT_THROW(table.add("table_test_null", DeviceType::Cpu, nullptr), InvalidArgument);
}

TEST(OpTable, ManyThreadsAddAndFind) {
  auto& table = OpTable::instance();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&table, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string name = concat("table_test_thread_", t, "_", i);
        table.add(name, DeviceType::Cuda, &kernel_b);
        EXPECT_EQ(table.find(name, DeviceType::Cuda), &kernel_b);
        table.ops(DeviceType::Cuda);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto names = table.ops(DeviceType::Cuda);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::count_if(names.begin(), names.end(),
                          [](const auto& n) { return n.starts_with("table_test_thread_"); }),
            800);
}

}  // namespace
}  // namespace hugectr
