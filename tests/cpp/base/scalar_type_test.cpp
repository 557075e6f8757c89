// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/scalar_type.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/shape.hpp"

namespace hugectr {
namespace {

template <class T>
void expect_type(const std::string& name) {
  EXPECT_EQ(size_of(ScalarTypeOf<T>::value), sizeof(T));
  EXPECT_EQ(to_string(ScalarTypeOf<T>::value), name);
}

TEST(ScalarType, SizesAndNames) {
  expect_type<float>("float32");
  expect_type<double>("float64");
  expect_type<Float16>("float16");
  expect_type<BFloat16>("bfloat16");
  expect_type<std::int64_t>("int64");
  expect_type<std::uint64_t>("uint64");
  expect_type<std::int32_t>("int32");
  expect_type<std::uint32_t>("uint32");
  expect_type<std::uint8_t>("uint8");
  EXPECT_EQ(size_of(TensorScalarType::None), 0u);
  EXPECT_EQ(size_of(TensorScalarType::Void), 1u);
}

TEST(Shape, ElementsAndText) {
  EXPECT_EQ(num_elements({}), 1u);
  EXPECT_EQ(num_elements({64, 26, 16}), 26624u);
  EXPECT_EQ(num_elements({64, 0}), 0u);
  EXPECT_EQ(to_string(Shape{64, 26, 16}), "(64, 26, 16)");
  EXPECT_EQ(to_string(Shape{}), "()");
  EXPECT_THROW(num_elements({std::size_t{1} << 40, std::size_t{1} << 40}), InvalidArgument);
}

}  // namespace
}  // namespace hugectr
