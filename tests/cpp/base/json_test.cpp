// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/json.hpp"

#include <gtest/gtest.h>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(Crc32, IsThatOfZlibAndGoesOn) {
  const std::string text = "123456789";
  EXPECT_EQ(crc32(text.data(), 9), 0xCBF43926U);  // the check value of its definition
  for (std::size_t cut = 0; cut <= 9; ++cut) {
    EXPECT_EQ(crc32(text.data() + cut, 9 - cut, crc32(text.data(), cut)), 0xCBF43926U);
  }
  std::string longer;
  for (int i = 0; i < 1000; ++i) longer += static_cast<char>(i * 7 % 256);
  EXPECT_EQ(crc32(longer.data(), longer.size()), 0x114AD5FFU);  // zlib.crc32 in Python
}

TEST(Json, ValuesAndTheirPlaces) {
  const std::string text =
      R"( {"a": [1, -2.5e3, true, null, "x\u00e9\ud83d\ude00\n"], "b": {}, "c": -9223372036854775808} )";
  const Json root = parse_json(text);
  const auto& list = root.at("a", "it").list("a");
  EXPECT_EQ(list[0].integer("a"), 1);
  EXPECT_EQ(list[1].number("a"), -2500.0);
  EXPECT_TRUE(list[2].boolean("a"));
  EXPECT_TRUE(list[3].is_null());
  EXPECT_EQ(list[4].text("a"), "x\xC3\xA9\xF0\x9F\x98\x80\n");
  EXPECT_TRUE(root.at("b", "it").members("b").empty());
  EXPECT_EQ(root.at("c", "it").integer("c", INT64_MIN), INT64_MIN);
  EXPECT_EQ(root.find("d", "it"), nullptr);
  EXPECT_THROW(root.at("d", "it"), DataError);
  EXPECT_THROW(list[0].text("a"), DataError);
  EXPECT_THROW(list[1].integer("a"), DataError);
  EXPECT_THROW(list[0].integer("a", 2), DataError);
}

TEST(Json, SortedAsPythonWritesIt) {
  // As json.dumps(json.loads(text), sort_keys=True), but for the member "crc32"; 2.50 stays so.
  const std::string text =
      R"({"b":[1,2.50,{}],"crc32":7,"a":{"crc32":1e-05,"A":[]},"\u00e9":"\u007f\ud83d\ude00\t\u0001\"\\/"})";
  EXPECT_EQ(
      sorted_json_text(parse_json(text), "crc32"),
      R"({"a": {"A": [], "crc32": 1e-05}, "b": [1, 2.50, {}], "\u00e9": "\u007f\ud83d\ude00\t\u0001\"\\/"})");
}

TEST(Json, WhatIsNoneIsRefused) {
  const std::string deep(100, '['), closed(100, ']');
  for (const std::string& text : {std::string(),
                                  std::string("{"),
                                  std::string("[1,]"),
                                  std::string("{\"a\":1,}"),
                                  std::string("01"),
                                  std::string("1."),
                                  std::string("+1"),
                                  std::string("-"),
                                  std::string("1e"),
                                  std::string("nul"),
                                  std::string("NaN"),
                                  std::string("Infinity"),
                                  std::string("\"\\x\""),
                                  std::string("\"\\u12g4\""),
                                  std::string("\"\\ud83d\""),
                                  std::string("\"\\ud83d\\u0041\""),
                                  std::string("\"\\udc00\""),
                                  std::string("\"\t\""),
                                  std::string("\"\xC3\xA9\""),
                                  std::string("\"a"),
                                  std::string("\"\\"),
                                  std::string("\"\\u1"),
                                  std::string("1 2"),
                                  std::string("{\"a\":1,\"a\":2}"),
                                  std::string("{1:2}"),
                                  std::string("[1 2]"),
                                  std::string("\0", 1),
                                  deep + closed}) {
    EXPECT_THROW(parse_json(text), DataError) << text;
  }
  const std::string allowed = std::string(60, '[') + std::string(60, ']');
  EXPECT_NO_THROW(parse_json(allowed));
}

}  // namespace
}  // namespace hugectr
