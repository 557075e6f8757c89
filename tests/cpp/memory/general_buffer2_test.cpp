// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/general_buffer2.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace hugectr {
namespace {

TEST(GeneralBuffer2, OneArenaWithAlignedNamedPieces) {
  auto buffer = GeneralBuffer2<HostAllocator>::create("network", HostAllocator());
  Tensor2<float> a;
  Tensor2<std::int64_t> b;
  buffer->reserve({3, 5}, &a, "fc1.weight");
  buffer->reserve({7}, &b, "ids");
  const TensorBag2 c = buffer->reserve({2, 2}, TensorScalarType::Float16, "half");
  EXPECT_FALSE(a.allocated());
  EXPECT_EQ(a.get_ptr(), nullptr);
  buffer->allocate();

  const auto* const base = static_cast<char*>(buffer->data());
  const auto& report = buffer->report();
  ASSERT_EQ(report.size(), 3u);
  EXPECT_EQ(report[0].owner, "network");
  EXPECT_EQ(report[0].name, "fc1.weight");
  EXPECT_EQ(report[0].bytes, 60u);
  EXPECT_EQ(report[1].name, "ids");
  EXPECT_EQ(report[1].bytes, 56u);
  EXPECT_EQ(report[2].bytes, 8u);
  for (const auto& entry : report) EXPECT_EQ(entry.offset % MemoryResource::kAlignment, 0u);
  EXPECT_EQ(reinterpret_cast<char*>(a.get_ptr()), base + report[0].offset);
  EXPECT_EQ(reinterpret_cast<char*>(b.get_ptr()), base + report[1].offset);
  EXPECT_EQ(c.get_ptr(), base + report[2].offset);
  EXPECT_GE(report[1].offset, report[0].offset + report[0].bytes);
  EXPECT_GE(buffer->size_in_bytes(), report[2].offset + report[2].bytes);
  EXPECT_TRUE(a.allocated());
}

TEST(GeneralBuffer2, FlatBuffersAreSetWhenTheArenaIsThere) {
  FlatBuffer floats, none;
  EXPECT_TRUE(floats.ref().empty());
  auto buffer = GeneralBuffer2<HostAllocator>::create("plan", HostAllocator());
  buffer->reserve(3, TensorScalarType::UInt8, &none, "bytes");
  buffer->reserve(10, TensorScalarType::Float32, &floats, "floats");
  EXPECT_TRUE(floats.ref().empty());
  buffer->allocate();
  const auto* const base = static_cast<char*>(buffer->data());
  EXPECT_EQ(floats.data(), base + buffer->report()[1].offset);
  EXPECT_EQ(buffer->report()[1].bytes, 40u);
  EXPECT_EQ(floats.size(), 10u);
  EXPECT_EQ(floats.size_in_bytes(), 40u);
  const TensorRef all = floats.ref(), some = floats.first(4);
  EXPECT_EQ(all.shape, (Shape{10}));
  EXPECT_EQ(some.shape, (Shape{4}));
  EXPECT_EQ(some.ptr<float>(), floats.data());
  EXPECT_EQ(some.row_stride, 1u);
}

TEST(GeneralBuffer2, FlatBuffersStayWhatTheyAreWithoutMemory) {
  FlatBuffer numbers;
  auto first = GeneralBuffer2<HostAllocator>::create("plan", HostAllocator());
  first->reserve(5, TensorScalarType::UInt32, &numbers, "numbers");
  first->allocate();
  void* const before = numbers.data();
  auto next = GeneralBuffer2<HostAllocator>::create("plan", HostAllocator());
  next->reserve(std::size_t{1} << 60, TensorScalarType::UInt32, &numbers, "numbers");
  EXPECT_THROW(next->allocate(), OutOfMemory);
  EXPECT_EQ(numbers.data(), before);
  EXPECT_EQ(numbers.size(), 5u);
}

TEST(GeneralBuffer2, LateReserveAndSecondAllocateAreRefusedByName) {
  auto buffer = GeneralBuffer2<HostAllocator>::create("network", HostAllocator());
  buffer->allocate();
  Tensor2<float> late;
  try {
    buffer->reserve({1}, &late, "late tensor");
    FAIL();
  } catch (const InvalidArgument& e) {
    EXPECT_NE(std::string(e.what()).find("network"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("late tensor"), std::string::npos);
  }
  EXPECT_THROW(buffer->allocate(), InvalidArgument);
}

TEST(GeneralBuffer2, TensorsKeepTheArenaAlive) {
  Tensor2<float> tensor;
  {
    auto buffer = GeneralBuffer2<HostAllocator>::create("short", HostAllocator());
    buffer->reserve({1000}, &tensor, "t");
    buffer->allocate();
  }
  std::memset(tensor.get_ptr(), 0, tensor.get_size_in_bytes());
  EXPECT_EQ(tensor.get_ptr()[999], 0.0f);
}

TEST(GeneralBuffer2, OutOfMemoryNamesTheArena) {
  auto buffer = GeneralBuffer2<HostAllocator>::create("arena of giants", HostAllocator());
  Tensor2<float> tensor;
  buffer->reserve({std::size_t{1} << 48}, &tensor, "giant");
  try {
    buffer->allocate();
    FAIL();
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("arena of giants"), std::string::npos);
  }
  EXPECT_FALSE(tensor.allocated());
}

TEST(GeneralBuffer2, DeviceBufferBelongsToItsDevice) {
  const DeviceId device{DeviceType::Cpu, 5};
  auto buffer = DeviceBuffer2::create("d", DeviceAllocator(make_host_memory_resource(device)));
  Tensor2<float> tensor;
  buffer->reserve({4}, &tensor, "t");
  buffer->allocate();
  EXPECT_EQ(tensor.ref().device, device);
}

}  // namespace
}  // namespace hugectr
