// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cuda_stream.hpp"

#include <chrono>
#include <numeric>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cuda/device/device_guard.hpp"
#include "core/cuda/device/status.hpp"
#include "tests/cuda/gpu.hpp"

namespace hugectr::cuda {
namespace {

using CudaStreamTest = GpuTest<1>;
using CudaStreamTest2 = GpuTest<2>;

/// Makes the stream pause, so that what does not wait for it comes first.
void pause(Stream& stream) {
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  HCTR_TRY(cudaLaunchHostFunc(static_cast<cudaStream_t>(stream.native()), sleep, nullptr));
}

TEST_F(CudaStreamTest, WorkRunsInOrder) {
  const auto stream = backend().create_stream(device, "test");
  EXPECT_EQ(stream->device(), device);
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 5);
  DeviceArray<int> a(device, 1000), b(device, 1000);
  a.set(*stream, values);
  pause(*stream);
  stream->copy(b.data(), a.data(), 4000);
  stream->fill_zero(a.data(), 4000);
  stream->copy(a.data() + 10, b.data() + 990, 40);
  EXPECT_EQ(b.get(*stream), values);
  std::vector<int> expected(1000, 0);
  std::copy(values.end() - 10, values.end(), expected.begin() + 10);
  EXPECT_EQ(a.get(*stream), expected);
}

TEST_F(CudaStreamTest, ScalarsMayChangeAfterTheCall) {
  const auto stream = backend().create_stream(device, "test");
  DeviceArray<unsigned char> array(device, 300);
  stream->fill_zero(array.data(), 300);
  pause(*stream);
  std::vector<unsigned char> values(257);
  std::iota(values.begin(), values.end(), static_cast<unsigned char>(1));
  auto expected = std::vector<unsigned char>(300, 0);
  std::copy(values.begin(), values.begin() + 256, expected.begin() + 1);
  stream->copy_scalars(array.data() + 1, values.data(), 256);  // odd address on purpose
  stream->copy_scalars(array.data(), values.data(), 0);
  std::fill(values.begin(), values.end(), static_cast<unsigned char>(99));
  EXPECT_EQ(array.get(*stream), expected);
  EXPECT_THROW(stream->copy_scalars(array.data(), values.data(), 257), InvalidArgument);
}

TEST_F(CudaStreamTest, EventsOrderStreams) {
  const auto first = backend().create_stream(device, "first");
  const auto second = backend().create_stream(device, "second");
  const auto event = backend().create_event(device);
  second->wait(*event);  // never recorded: done
  event->synchronize();
  DeviceArray<int> a(device, 4), b(device, 4);
  a.set(*first, {1, 2, 3, 4});
  pause(*first);
  first->fill_zero(a.data(), 16);
  first->record(*event);
  second->wait(*event);
  second->copy(b.data(), a.data(), 16);
  EXPECT_EQ(b.get(*second), std::vector<int>(4, 0));
  pause(*first);
  first->copy_scalars(a.data(), "\1\0\0\0", 4);
  first->record(*event);
  event->synchronize();
  EXPECT_EQ(a.get(*second)[0], 1);
}

TEST_F(CudaStreamTest, TasksRunAtOnceWithTheirDeviceAndThrowToTheCaller) {
  const auto stream = backend().create_stream(device, "test");
  bool ran = false;
  stream->submit([&] {
    int current = -1;
    HCTR_TRY(cudaGetDevice(&current));
    EXPECT_EQ(current, device.index);
    ran = true;
  });
  EXPECT_TRUE(ran);
  EXPECT_THROW(stream->submit([] { throw DataError("bad"); }), DataError);
  stream->synchronize();
}

TEST_F(CudaStreamTest, StreamsAndEventsOfOtherDevicesAreRefused) {
  const auto stream = backend().create_stream(device, "test");
  const DeviceId cpu{DeviceType::Cpu, 0};
  const auto cpu_event = DeviceBackend::get(DeviceType::Cpu).create_event(cpu);
  EXPECT_THROW(stream->record(*cpu_event), InvalidArgument);
  const auto cpu_stream = DeviceBackend::get(DeviceType::Cpu).create_stream(cpu, "cpu");
  EXPECT_THROW(cuda_stream(*cpu_stream), InvalidArgument);
}

TEST_F(CudaStreamTest, AFailureOfAWatchedGroupIsThrownOnce) {
  const auto stream = backend().create_stream(device, "test");
  const auto failure = std::make_shared<StreamFailure>();
  cuda_stream(*stream).watch(failure);
  stream->synchronize();
  cuda_stream(*stream).watch(failure);
  EXPECT_TRUE(failure->set("rank 1 stopped"));
  EXPECT_FALSE(failure->set("later"));
  try {
    stream->synchronize();
    FAIL();
  } catch (const CommError& e) {
    EXPECT_STREQ(e.what(), "rank 1 stopped");
  }
  stream->synchronize();
}

TEST_F(CudaStreamTest2, EveryDeviceHasItsOwnStreamsAndTheCallersDeviceStays) {
  const DeviceGuard guard(0);
  const DeviceId other{DeviceType::Cuda, 1};
  const auto stream = backend().create_stream(other, "test");
  DeviceArray<int> array(other, 2);
  array.set(*stream, {7, 8});
  stream->copy_scalars(array.data(), "\5\0\0\0", 4);
  EXPECT_EQ(array.get(*stream), (std::vector<int>{5, 8}));
  cudaPointerAttributes attributes{};
  HCTR_TRY(cudaPointerGetAttributes(&attributes, array.data()));
  EXPECT_EQ(attributes.device, 1);
  int current = -1;
  HCTR_TRY(cudaGetDevice(&current));
  EXPECT_EQ(current, 0);
}

}  // namespace
}  // namespace hugectr::cuda
