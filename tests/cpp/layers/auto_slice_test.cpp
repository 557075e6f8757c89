// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/auto_slice.hpp"

#include <gtest/gtest.h>

namespace hugectr {
namespace {

using Names = std::vector<std::string>;

DenseLayerSpec layer(const std::string& type, Names bottoms, Names tops) {
  return {.type = type, .bottoms = std::move(bottoms), .tops = std::move(tops)};
}

Names types(const std::vector<DenseLayerSpec>& layers) {
  Names names;
  for (const DenseLayerSpec& l : layers) names.push_back(l.type);
  return names;
}

TEST(AutoSlice, LeavesSingleUsesAlone) {
  const auto layers = insert_slices({layer("ReLU", {"x"}, {"a"}), layer("ReLU", {"a"}, {"b"})});
  EXPECT_EQ(types(layers), (Names{"ReLU", "ReLU"}));
}

TEST(AutoSlice, InputsAreSlicedFirstAndTopsBehindTheirLayer) {
  const auto layers = insert_slices({layer("ReLU", {"x"}, {"a"}), layer("ReLU", {"x"}, {"b"}),
                                     layer("Add", {"a", "b"}, {"c"}),
                                     layer("ElementwiseMultiply", {"a", "c", "a"}, {"d"})});
  EXPECT_EQ(types(layers), (Names{"Slice", "ReLU", "Slice", "ReLU", "Add", "ElementwiseMultiply"}));
  EXPECT_EQ(layers[0].bottoms, Names{"x"});
  EXPECT_EQ(layers[0].tops, (Names{"x_slice0", "x_slice1"}));
  EXPECT_EQ(layers[2].tops, (Names{"a_slice0", "a_slice1", "a_slice2"}));
  EXPECT_EQ(layers[2].attributes.get_int("copies", 0), 3);
  EXPECT_EQ(layers[1].bottoms, Names{"x_slice0"});
  EXPECT_EQ(layers[3].bottoms, Names{"x_slice1"});
  EXPECT_EQ(layers[4].bottoms, (Names{"a_slice0", "b"}));
  EXPECT_EQ(layers[5].bottoms, (Names{"a_slice1", "c", "a_slice2"}));
}

TEST(AutoSlice, HasNoLimitAndComesBackUnchanged) {
  std::vector<DenseLayerSpec> uses;
  for (int i = 0; i < 12; ++i) uses.push_back(layer("ReLU", {"x"}, {"r" + std::to_string(i)}));
  const auto once = insert_slices(uses);
  ASSERT_EQ(once.size(), 13u);
  EXPECT_EQ(once[0].tops.size(), 12u);
  const auto twice = insert_slices(once);
  ASSERT_EQ(twice.size(), once.size());
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(twice[i].bottoms, once[i].bottoms);
    EXPECT_EQ(twice[i].tops, once[i].tops);
  }
}

TEST(AutoSlice, SharedTensorsStayAndTakenNamesArePassedOver) {
  const auto layers =
      insert_slices({layer("ReLU", {"x"}, {"x_slice0"}), layer("Add", {"x", "label"}, {"a"}),
                     layer("Add", {"a", "label"}, {"b"})},
                    {"label"});
  EXPECT_EQ(types(layers), (Names{"Slice", "ReLU", "Add", "Add"}));
  EXPECT_EQ(layers[0].tops, (Names{"x_slice1", "x_slice2"}));
  EXPECT_EQ(layers[2].bottoms, (Names{"x_slice2", "label"}));
}

}  // namespace
}  // namespace hugectr
