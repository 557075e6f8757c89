// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "core/cpp/layers/layer.hpp"

/// Names of parameters: Python gives each layer those that it reads, C++ programs write them.
namespace hugectr {
namespace {

DenseLayerSpec layer(const std::string& type, const std::string& parameter) {
  return {.type = type, .bottoms = {"x"}, .tops = {"y"}, .attributes = {{parameter, 3.0}}};
}

TEST(LayerParameters, ANameThatNoLayerHasIsRefused) {
  try {
    make_layer(layer("InnerProduct", "num_outptu"));
    FAIL();
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("InnerProduct layer \"y\": no layer has a parameter \"num_outptu\""),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("num_output"), std::string::npos) << text;
  }
}

TEST(LayerParameters, AValueOfAnotherKindIsNamedWithItsLayer) {
  const auto text_of = [](const DenseLayerSpec& spec, const char* name) -> std::string {
    try {
      static_cast<void>(make_layer(spec)->spec().attributes.get_int(name, 0));
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  const std::string text = text_of(layer("InnerProduct", "num_output"), "num_output");
  EXPECT_NE(text.find("InnerProduct layer \"y\": parameter num_output is a float, must be an int"),
            std::string::npos)
      << text;
}

TEST(LayerParameters, ThoseOfOtherLayersAndOfEntriesAreTaken) {
  for (const char* const name : {"num_output", "dropout_rate", "elu_alpha", "lambda"}) {
    EXPECT_NE(make_layer(layer("ReLU", name)), nullptr) << name;
  }
}

}  // namespace
}  // namespace hugectr
