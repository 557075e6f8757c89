// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cuda/comm/nccl.hpp"
#include "core/cuda/device/cublas_lt.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/driver/shared_library.hpp"
#include "tests/cuda/gpu.hpp"

namespace hugectr::cuda {
namespace {

using ErrorsTest = GpuTest<1>;

template <class E, class F>
void expect_text(const F& f, const std::vector<std::string>& parts) {
  try {
    f();
    FAIL() << "nothing was thrown";
  } catch (const E& e) {
    for (const auto& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << part << " in " << e.what();
    }
  }
}

// No GPU is needed for these.

TEST(CudaErrors, StatusNamesTheCallAndTheCause) {
  expect_text<DeviceError>([] { check_status(cudaErrorInvalidValue, "cudaThing(x)", "a/b.cu", 7); },
                           {"cudaThing(x)", "b.cu:7", "cudaErrorInvalidValue"});
  expect_text<OutOfMemory>([] { check_status(cudaErrorMemoryAllocation, "cudaMalloc", "b.cu", 7); },
                           {"cudaMalloc"});
  expect_text<DeviceError>([] { check_status(cudaErrorIllegalAddress, "k", "b.cu", 7); },
                           {"HUGECTR_SYNC=1"});
  check_status(cudaSuccess, "cudaThing(x)", "b.cu", 7);
}

TEST(CudaErrors, ImpossibleLaunchesNameTheKernel) {
  expect_text<InvalidArgument>([] { check_launch("gather", dim3(1), dim3(2000), 0); },
                               {"gather", "2000"});
  expect_text<InvalidArgument>([] { check_launch("gather", dim3(1, 70000), dim3(32), 0); },
                               {"gather", "70000"});
  check_launch("gather", dim3(1), dim3(1024), 48 * 1024);
}

TEST(CudaErrors, AMissingLibraryTellsWhereItWasLookedForAndTheWayOut) {
  expect_text<DeviceError>([] { SharedLibrary("libnothing.so.9", "some_wheel", "some-wheel"); },
                           {"libnothing.so.9", "pip install some-wheel", "HUGECTR_CUDA_LIB_PATH",
                            "nvidia/some_wheel/lib"});
}

TEST(CudaErrors, TheReasonIsThereWithoutAGpu) {
  const std::string reason = DeviceBackend::why_not(DeviceType::Cuda);
  if (reason.empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_NE(reason.find("cpu"), std::string::npos) << reason;
  EXPECT_THROW(ResourceManager::create({{0}}, 1, DeviceType::Cuda), DeviceError);
  const auto libraries = DeviceBackend::get(DeviceType::Cuda).libraries();
  EXPECT_EQ(libraries.count("driver"), 1u);
  EXPECT_EQ(libraries.count("NCCL"), 1u);
}

TEST_F(ErrorsTest, ADeviceThatIsNotThere) {
  const int count = backend().device_count();
  for (const int id : {-1, count, count + 5}) {
    expect_text<InvalidArgument>([&] { backend().check_device(id); },
                                 {concat("no CUDA device ", id), concat("sees ", count)});
  }
  backend().check_device(0);
  EXPECT_FALSE(backend().device_name(0).empty());
  EXPECT_THROW(ResourceManager::create({{count}}, 1, DeviceType::Cuda), InvalidArgument);
}

TEST_F(ErrorsTest, AnErrorIsThrownOnceAndTheProcessGoesOn) {
  EXPECT_THROW(HCTR_TRY(cudaSetDevice(9999)), DeviceError);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  const auto stream = backend().create_stream(device, "test");
  DeviceArray<int> array(device, 1);
  array.set(*stream, {3});
  EXPECT_EQ(array.get(*stream)[0], 3);
}

TEST_F(ErrorsTest, TheLibrariesAreFound) {
  for (const auto& [name, text] : backend().libraries()) {
    EXPECT_EQ(text.find("can not open"), std::string::npos) << name << ": " << text;
  }
  const auto stream = backend().create_stream(device, "test");
  CublasLt& lt = cublas_lt({.stream = stream.get(), .device = device});
  EXPECT_EQ(&lt, &cublas_lt({.stream = stream.get(), .device = device}));
  EXPECT_NE(lt.handle(), nullptr);
  EXPECT_NE(lt.workspace(), nullptr);
}

TEST_F(ErrorsTest, GridsFillTheDeviceAndNoMore) {
  EXPECT_EQ(grid_for(0, 256), 0u);
  EXPECT_EQ(grid_for(1, 256), 1u);
  EXPECT_EQ(grid_for(257, 256), 2u);
  const unsigned most = grid_for(std::size_t{1} << 40, 256);
  EXPECT_GT(most, 16u);
  EXPECT_LT(most, 100'000u);
  expect_text<InvalidArgument>(
      [] { check_launch("tile", dim3(1), dim3(32), std::size_t{1} << 20); }, {"tile", "shared"});
}

}  // namespace
}  // namespace hugectr::cuda
