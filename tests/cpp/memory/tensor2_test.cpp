// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/tensor2.hpp"

#include <gtest/gtest.h>

#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {
namespace {

Tensor2<float> make_tensor(const Shape& shape) {
  auto buffer = GeneralBuffer2<HostAllocator>::create("test", HostAllocator());
  Tensor2<float> tensor;
  buffer->reserve(shape, &tensor, "t");
  buffer->allocate();
  return tensor;
}

TEST(Tensor2, EmptyOneOwnsNothing) {
  const Tensor2<float> tensor;
  EXPECT_EQ(tensor.get_num_elements(), 0u);
  EXPECT_EQ(tensor.get_size_in_bytes(), 0u);
  EXPECT_EQ(tensor.get_ptr(), nullptr);
  EXPECT_FALSE(tensor.allocated());
  EXPECT_TRUE(TensorBag2().ref().empty());
}

TEST(Tensor2, ShrinkAndStretchKeepMemoryAndShape) {
  Tensor2<float> tensor = make_tensor({4, 3});
  tensor.get_ptr()[11] = 2.5f;
  const TensorBag2 bag = tensor.shrink();
  EXPECT_EQ(bag.get_scalar_type(), TensorScalarType::Float32);
  EXPECT_EQ(bag.get_dimensions(), (Shape{4, 3}));
  EXPECT_EQ(bag.get_size_in_bytes(), 48u);
  const auto again = Tensor2<float>::stretch_from(bag);
  EXPECT_EQ(again.get_ptr(), tensor.get_ptr());
  EXPECT_EQ(again.get_ptr()[11], 2.5f);
  EXPECT_EQ(again.get_dimensions(), (Shape{4, 3}));
}

TEST(Tensor2, StretchToAnotherTypeIsRefused) {
  const TensorBag2 bag = make_tensor({4, 3}).shrink();
  try {
    Tensor2<std::int32_t>::stretch_from(bag);
    FAIL();
  } catch (const InvalidArgument& e) {
    const std::string text = e.what();
    EXPECT_EQ(text.find("Inconsistent tensor type"), 0u) << text;
    EXPECT_NE(text.find("float32"), std::string::npos);
    EXPECT_NE(text.find("int32"), std::string::npos);
  }
}

TEST(Tensor2, ResetShapeKeepsTheElementCount) {
  Tensor2<float> tensor = make_tensor({4, 3});
  tensor.reset_shape({2, 6});
  EXPECT_EQ(tensor.get_dimensions(), (Shape{2, 6}));
  EXPECT_THROW(tensor.reset_shape({5}), InvalidArgument);
}

TEST(TensorRef, StridedRowsAndTypes) {
  float data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  TensorRef ref = make_ref(data, {3, 4});
  EXPECT_TRUE(ref.contiguous());
  ref.shape = {3, 2};
  EXPECT_FALSE(ref.contiguous());
  EXPECT_EQ(*ref.row<float>(2), 8.0f);
  EXPECT_EQ(ref.size(), 6u);
  EXPECT_EQ(ref.size_in_bytes(), 24u);
  EXPECT_THROW(ref.ptr<double>(), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
