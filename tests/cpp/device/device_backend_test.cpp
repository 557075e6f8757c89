// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/device_backend.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(DeviceBackend, CpuIsAlwaysThere) {
  DeviceBackend& cpu = DeviceBackend::get(DeviceType::Cpu);
  EXPECT_EQ(cpu.type(), DeviceType::Cpu);
  EXPECT_GE(cpu.device_count(), 1);
  EXPECT_EQ(DeviceBackend::why_not(DeviceType::Cpu), "");
  EXPECT_NO_THROW(cpu.check_device(63));
  EXPECT_THROW(cpu.check_device(-1), InvalidArgument);
  const DeviceId device{DeviceType::Cpu, 4};
  EXPECT_EQ(cpu.memory_resource(device)->device(), device);
  EXPECT_EQ(cpu.create_stream(device, "s")->device(), device);
  EXPECT_EQ(cpu.create_communicators({device, {DeviceType::Cpu, 5}}, {{0, 0}, nullptr}).size(), 2u);
}

class Plugin : public testing::Test {
 protected:
  void TearDown() override { unsetenv("HUGECTR_CUDA_PLUGIN"); }
};

TEST_F(Plugin, AbsentOneIsAnErrorWithTheWayOut) {
  setenv("HUGECTR_CUDA_PLUGIN", "/nowhere/libhugectr_cuda.so", 1);
  const std::string reason = DeviceBackend::why_not(DeviceType::Cuda);
  EXPECT_NE(reason.find("not part of this build"), std::string::npos) << reason;
  EXPECT_NE(reason.find("pip install"), std::string::npos);
  EXPECT_NE(reason.find("/nowhere/"), std::string::npos);
  EXPECT_THROW(DeviceBackend::get(DeviceType::Cuda), DeviceError);
}

TEST_F(Plugin, DamagedOneIsAnErrorWithTheLoadersText) {
  const auto path =
      std::filesystem::temp_directory_path() / concat("hugectr_damaged_plugin_", ::getpid(), ".so");
  std::ofstream(path) << "no shared object";
  setenv("HUGECTR_CUDA_PLUGIN", path.c_str(), 1);
  const std::string reason = DeviceBackend::why_not(DeviceType::Cuda);
  std::filesystem::remove(path);
  EXPECT_NE(reason.find("can not open the CUDA plug-in"), std::string::npos) << reason;
}

}  // namespace
}  // namespace hugectr
