// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/checkpoints/manifest.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "tests/fuzz/fuzz_case.hpp"

namespace hugectr {
namespace {

constexpr const char* kFolder = HUGECTR_FIXTURES "/be4a3b8/adagrad/step-0000000003";

std::string fixture() {
  std::ostringstream text;
  text << std::ifstream(std::string(kFolder) + "/manifest.json").rdbuf();
  return text.str();
}

/// The text with its checksum put right.
std::string summed(const std::string& text) {
  const std::string rest = sorted_json_text(parse_json(text), "crc32");
  return concat(rest.substr(0, rest.size() - 1), ", \"crc32\": ", crc32(rest.data(), rest.size()),
                "}");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == text.npos) ADD_FAILURE() << "no " << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  try {
    parse_manifest(kFolder, text);
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(Manifest, WhatPythonWrote) {
  const Manifest manifest = read_manifest(kFolder);
  EXPECT_EQ(manifest.format, 3);
  EXPECT_EQ(manifest.step, 3);
  ASSERT_EQ(manifest.tables.size(), 2U);
  EXPECT_EQ(manifest.tables[0].name, "one");
  EXPECT_EQ(manifest.tables[0].vec_size, 4U);
  EXPECT_TRUE(manifest.tables[1].has_slots);
  EXPECT_EQ(manifest.tables[1].file("slot", 0, 3), "table1.slot.1-of-1");
  EXPECT_EQ(manifest.files.at("dense.weights").bytes, 384U);
  EXPECT_EQ(manifest.dense_tensors->at(0).first, "hidden.weight");
  EXPECT_FALSE(manifest.description.is_null());
  EXPECT_EQ(refusal(summed(fixture())), "");
}

TEST(Manifest, AnythingElseIsRefusedByItsPlace) {
  struct Case {
    const char *from, *to, *word;
  };
  for (const Case& one : {
           Case{"\"format\": 3", "\"format\": 5", "format 5, this version reads 1 to 4: update"},
           Case{"\"format\": 3", "\"format\": 0", "formats are 1 to 4"},
           Case{"\"format\": 3", "\"format\": \"3\"", "format must be an integer"},
           Case{"\"step\": 3,\n \"seed\"", "\"step\": 4,\n \"seed\"", "of step 4, its folder of"},
           Case{"\"step\": 3,\n \"seed\"", "\"step\": -1,\n \"seed\"", "step is -1"},
           Case{"\"bytes\": 384", "\"bytes\": 380", "files.dense.weights.bytes must be 384"},
           Case{"\"bytes\": 384", "\"bytes\": 99999999999999999999", "allowed: an integer"},
           Case{"\"chunk_bytes\": 16777216", "\"chunk_bytes\": 0", "chunk_bytes is 0"},
           Case{"\"chunk_bytes\": 16777216", "\"chunk_bytes\": 1", "must be of 384 checksums"},
           Case{"\"dtype\": \"float32\"", "\"dtype\": \"object\"", "float32, float64, int64"},
           Case{"\"rows\": 38", "\"rows\": 37", "tables[0].shards must be of all its rows"},
           Case{"38,\n   \"vec_size\": 4", "38,\n   \"vec_size\": 5", "float32 of 38 rows of 5"},
           Case{"38,\n   \"vec_size\": 4", "38,\n   \"vec_size\": 0", "tables[0].vec_size is 0"},
           Case{"\"chunk_rows\": 418816", "\"chunk_rows\": 1", "as chunk_rows says"},
           Case{"\"dense.weights\": {", "\"../weights\": {", "a name in files is no file's"},
           Case{"\"dense.weights\": {", "\".weights\": {", "a name in files is no file's"},
           Case{"\"dense.weights\": {", "\"weights\": {", "an object with 'dense.weights'"},
           Case{"\"frozen\"", "\"chain\": [\"..\"], \"frozen\"", "a name in chain is no folder's"},
           Case{"\"frozen\"", "\"chain\": [\"a/b\"], \"frozen\"", "a name in chain is no folder's"},
           Case{"\"frozen\"", "\"chain\": [\"a\"], \"frozen\"", "chain_crc32 must be of 1"},
       }) {
    const std::string text = summed(replaced(fixture(), one.from, one.to));
    EXPECT_NE(refusal(text).find(one.word), std::string::npos) << refusal(text) << "\n" << one.to;
  }
}

/// tests/fuzz does it for hours where there is libFuzzer.
TEST(Manifest, MutationsAreReadOrRefused) {
  const std::string text = fixture();
  ASSERT_EQ(fuzzing::fuzz_saved(text), 9U);
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  std::size_t read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string other = text;
    for (std::size_t k = 0; k <= below(3); ++k) {
      const std::size_t at = below(other.size()), from = below(other.size()), size = below(40);
      switch (below(4)) {
        case 0:
          other[at] = static_cast<char>(below(256));
          break;
        case 1:
          other.erase(at, size);
          break;
        case 2:
          other.insert(at, other.substr(from, size));
          break;
        default:
          other.insert(at, concat(std::uint64_t{1} << below(64)));
      }
    }
    read += fuzzing::fuzz_saved(other) > 0;
  }
  EXPECT_GT(read, 30U);  // else they reach nothing
}

TEST(Manifest, EveryByteCounts) {
  const std::string text = fixture();
  for (std::size_t at = 0; at < text.size(); at += 7) {
    if (std::string(" \n").find(text[at]) != std::string::npos) continue;  // between values
    std::string other = text;
    other[at] ^= 1;
    EXPECT_NE(refusal(other), "") << at;
  }
  for (std::size_t size = 0; size < text.size(); size += 13) {
    EXPECT_NE(refusal(text.substr(0, size)), "") << size;
  }
}

}  // namespace
}  // namespace hugectr
