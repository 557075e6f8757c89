// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cuda_stream.hpp"

#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cuda/device/branches.hpp"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/status.hpp"
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

TEST_F(CudaStreamTest, PiecesBesideEachOtherBeginAfterAndEndBefore) {
  const auto stream = backend().create_stream(device, "test");
  constexpr std::size_t kPieces = 9;
  DeviceArray<int> given(device, kPieces), from(device, kPieces), to(device, kPieces);
  std::vector<int> values(kPieces);
  std::iota(values.begin(), values.end(), 3);
  for (int turn = 0; turn < 3; ++turn) {
    for (int& value : values) value += 100;
    given.set(*stream, values);
    pause(*stream);  // who does not wait copies what was there before
    stream->copy(from.data(), given.data(), sizeof(int) * kPieces);
    Branches branches({.stream = stream.get(), .device = device}, kPieces);
    std::set<void*> streams;
    for (std::size_t i = 0; i < kPieces; ++i) {
      Stream& own = *branches.context(i).stream;
      streams.insert(own.native());
      pause(own);
      own.copy(to.data() + i, from.data() + i, sizeof(int));
    }
    branches.join();
    EXPECT_EQ(streams.size(), SideStreams::kMost + 1);
    EXPECT_EQ(to.get(*stream), values);
  }
  const Branches one({.stream = stream.get(), .device = device}, 1);
  EXPECT_EQ(one.context(0).stream, stream.get());
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

TEST_F(CudaStreamTest, CapturedWorkRunsWhenItIsReplayed) {
  const auto stream = backend().create_stream(device, "test");
  DeviceArray<int> a(device, 4), b(device, 4);
  a.set(*stream, {1, 2, 3, 4});
  b.set(*stream, {0, 0, 0, 0});
  const auto work = stream->capture([&] {
    stream->copy(b.data(), a.data(), 16);
    stream->copy_scalars(a.data(), "\7\0\0\0", 4);
  });
  if (!work) GTEST_SKIP() << "HUGECTR_SYNC=1";
  EXPECT_EQ(b.get(*stream), (std::vector<int>{0, 0, 0, 0}));
  work->replay();
  EXPECT_EQ(b.get(*stream), (std::vector<int>{1, 2, 3, 4}));
  work->replay();
  EXPECT_EQ(b.get(*stream), (std::vector<int>{7, 2, 3, 4}));
}

TEST_F(CudaStreamTest, AStreamIsUsableAfterACaptureThatFailed) {
  const auto stream = backend().create_stream(device, "test");
  DeviceArray<int> a(device, 2);
  a.set(*stream, {1, 2});
  const auto fail = [&] {
    stream->fill_zero(a.data(), 8);
    throw DataError("half way");
  };
  if (!stream->capture([] {})) GTEST_SKIP() << "HUGECTR_SYNC=1";
  EXPECT_THROW(stream->capture(fail), DataError);
  // Waiting for a stream is not allowed while it is captured.
  EXPECT_THROW(stream->capture([&] { stream->synchronize(); }), DeviceError);
  EXPECT_EQ(a.get(*stream), (std::vector<int>{1, 2}));
  stream->fill_zero(a.data(), 4);
  EXPECT_EQ(a.get(*stream), (std::vector<int>{0, 2}));
}

TEST_F(CudaStreamTest, OtherThreadsGoOnWhileAStreamIsCaptured) {
  const auto stream = backend().create_stream(device, "test");
  const auto other = backend().create_stream(device, "other");
  DeviceArray<int> a(device, 2);
  a.set(*stream, {1, 2});
  const auto work = stream->capture([&] {
    stream->fill_zero(a.data(), 4);
    std::thread([&] {
      DeviceArray<int> b(device, 3);
      b.set(*other, {5, 6, 7});
      EXPECT_EQ(b.get(*other), (std::vector<int>{5, 6, 7}));
    }).join();
  });
  if (!work) GTEST_SKIP() << "HUGECTR_SYNC=1";
  work->replay();
  EXPECT_EQ(a.get(*stream), (std::vector<int>{0, 2}));
}

TEST_F(CudaStreamTest, TimeMarksMeasureTheStream) {
  const auto stream = backend().create_stream(device, "test");
  const auto first = stream->create_time_mark(), second = stream->create_time_mark();
  stream->stamp(*first);
  pause(*stream);  // 50 ms
  stream->stamp(*second);
  EXPECT_GE(second->seconds_since(*first), 0.05);
  const auto host = DeviceBackend::get(DeviceType::Cpu)
                        .create_stream({DeviceType::Cpu, 0}, "cpu")
                        ->create_time_mark();
  EXPECT_THROW(stream->stamp(*host), InvalidArgument);
  EXPECT_THROW(second->seconds_since(*host), InvalidArgument);
}

TEST_F(CudaStreamTest, ScratchIsTakenAgainInStreamOrderAndGrows) {
  const auto stream = backend().create_stream(device, "test");
  ScratchArena& arena = cuda_stream(*stream).scratch();
  const OpContext context{.stream = stream.get(), .device = device};
  void* first = nullptr;
  {
    const Scratch a(context, 1000), b(context, 0), c(context, 300);
    first = a.data();
    std::set<void*> all{a.data(), b.data(), c.data()};
    EXPECT_EQ(all.size(), 3u);
    for (void* data : all) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 256, 0u);
    EXPECT_EQ(static_cast<char*>(b.data()) - static_cast<char*>(a.data()), 1024);
  }
  const std::size_t held = arena.size();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Scratch(context, 2000).data(), first);
  EXPECT_EQ(arena.size(), held);
  const std::size_t large = 3 * held;
  {
    const Scratch kept(context, 100), grown(context, large);
    stream->fill_zero(kept.data(), 100);  // both can be used
    stream->fill_zero(grown.data(), large);
    stream->synchronize();
  }
  const std::size_t after = arena.size();
  EXPECT_GE(after, held + large);
  EXPECT_NE(Scratch(context, 100 + large).data(), nullptr);
  EXPECT_EQ(arena.size(), after);
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
