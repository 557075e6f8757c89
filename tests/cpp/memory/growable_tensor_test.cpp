// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/growable_tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(GrowableTensor, RowsStayWhereTheyAre) {
  const DeviceId device{DeviceType::Cpu, 1};
  const auto resource = make_host_memory_resource(device);
  GrowableTensor rows(*resource, TensorScalarType::Float32, 16, 100'000, "rows");
  EXPECT_EQ(rows.rows(), 0u);
  EXPECT_EQ(rows.max_rows(), 100'000u);
  rows.grow_to(10);
  EXPECT_GE(rows.rows(), 10u);
  float* const first = rows.ref().ptr<float>();
  first[0] = 5.0f;
  rows.grow_to(100'000);
  EXPECT_EQ(rows.rows(), 100'000u);
  EXPECT_EQ(rows.ref().ptr<float>(), first);
  EXPECT_EQ(first[0], 5.0f);
  EXPECT_EQ(*rows.ref(99'999, 1).ptr<float>(), 0.0f);
  EXPECT_EQ(rows.ref().device, device);
  EXPECT_GE(rows.size_in_bytes(), 100'000u * 64);
}

TEST(GrowableTensor, GrowsByAnEighthAtLeastAndNeverPastItsLimit) {
  const auto resource = make_host_memory_resource();
  GrowableTensor rows(*resource, TensorScalarType::Float32, 1024, 10'000, "rows");
  int growths = 0;
  for (std::size_t n = 1; n <= 10'000; ++n) {
    const std::size_t before = rows.rows();
    rows.grow_to(n);
    if (rows.rows() == before) continue;
    ++growths;
    ASSERT_TRUE(rows.rows() >= before + before / 8 || rows.rows() == 10'000u) << before;
    ASSERT_LE(rows.rows(), 10'000u);
  }
  EXPECT_LT(growths, 100);
  try {
    rows.grow_to(10'001);
    FAIL();
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("'rows'"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("10001"), std::string::npos);
  }
  EXPECT_EQ(rows.rows(), 10'000u);
}

TEST(GrowableTensor, ALargeTensorHasFewRowsToSpare) {
  const auto resource = make_host_memory_resource();
  // Rows of 1 MiB, whose pages nobody touches.
  GrowableTensor rows(*resource, TensorScalarType::Float32, std::size_t{1} << 18, 6000, "rows");
  int growths = 0;
  for (std::size_t n = 1; n <= 5000; ++n) {
    const std::size_t before = rows.rows();
    rows.grow_to(n);
    growths += rows.rows() != before;
    ASSERT_LE(rows.rows(), n + std::max<std::size_t>(64, n / 32));
  }
  EXPECT_LT(growths, 150);
}

TEST(GrowableTensor, ViewsOfRows) {
  const auto resource = make_host_memory_resource();
  GrowableTensor rows(*resource, TensorScalarType::Int64, 3, 50, "ids");
  rows.grow_to(20);
  const TensorRef part = rows.ref(4, 5);
  EXPECT_EQ(part.shape, (Shape{5, 3}));
  EXPECT_EQ(part.ptr<std::int64_t>(), rows.ref().ptr<std::int64_t>() + 12);
  EXPECT_TRUE(part.contiguous());
  EXPECT_THROW(rows.ref(40, 11), InvalidArgument);
  EXPECT_THROW(GrowableTensor(*resource, TensorScalarType::Int64, 0, 50, "x"), InvalidArgument);
  EXPECT_THROW(GrowableTensor(*resource, TensorScalarType::Int64, 1024, SIZE_MAX / 16, "x"),
               OutOfMemory);
}

}  // namespace
}  // namespace hugectr
