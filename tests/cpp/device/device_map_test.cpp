// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/device_map.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(DeviceMap, LocalFirstDealsProcessByProcess) {
  const DeviceMap map({{0, 3}, {1, 2, 5}}, 1);
  EXPECT_EQ(map.size(), 5u);
  EXPECT_EQ(map.num_processes(), 2u);
  EXPECT_EQ(map.get_process_id(), 1u);
  EXPECT_EQ(map.get_local_size(), 3u);
  EXPECT_EQ(map.get_device_list(), (std::vector<int>{1, 2, 5}));
  EXPECT_EQ(map.get_global_id(0), 2u);
  EXPECT_EQ(map.get_global_id(2), 4u);
  EXPECT_EQ(map.get_local_id(4), 2);
  EXPECT_EQ(map.get_local_id(1), -1);
  EXPECT_EQ(map.get_pid(1), 0u);
  EXPECT_EQ(map.get_pid(2), 1u);
}

TEST(DeviceMap, NodeFirstTakesOneDeviceOfEveryProcessInTurn) {
  const DeviceMap map({{0, 1}, {0, 1}, {0, 1}}, 2, DeviceLayout::NodeFirst);
  for (std::size_t pid = 0; pid < 3; ++pid) {
    for (std::size_t local = 0; local < 2; ++local) {
      const std::size_t global = local * 3 + pid;
      EXPECT_EQ(map.get_pid(global), pid);
      EXPECT_EQ(map.get_local_id(global), pid == 2 ? static_cast<int>(local) : -1);
      if (pid == 2) {
        EXPECT_EQ(map.get_global_id(local), global);
      }
    }
  }
}

void expect_refused(const std::vector<std::vector<int>>& vvgpu, std::size_t process,
                    DeviceLayout layout, const std::string& part) {
  try {
    const DeviceMap map(vvgpu, process, layout);
    ADD_FAILURE() << "accepted, expected: " << part;
  } catch (const InvalidArgument& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(DeviceMap, RefusesWhatCanNotWork) {
  const auto local_first = DeviceLayout::LocalFirst;
  expect_refused({}, 0, local_first, "vvgpu is empty");
  expect_refused({{0}, {}}, 0, local_first, "vvgpu[1] is empty");
  expect_refused({{0, 1, 0}}, 0, local_first, "device 0 twice");
  expect_refused({{0, -2}}, 0, local_first, "holds -2");
  expect_refused({{0}}, 1, local_first, "process 1 has no row");
  expect_refused({{0, 1}, {0}}, 0, DeviceLayout::NodeFirst, "NodeFirst");
  const DeviceMap map({{0, 1}}, 0);
  EXPECT_THROW(map.get_global_id(2), InvalidArgument);
  EXPECT_THROW(map.get_local_id(2), InvalidArgument);
  EXPECT_THROW(map.get_pid(7), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
