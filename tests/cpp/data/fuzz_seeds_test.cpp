// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/fuzz_case.hpp"
#include "tests/fuzz/seeds.hpp"

namespace hugectr::fuzzing {
namespace {

/// The fuzz targets are built and run elsewhere; here it shows that their inputs still mean
/// something: a seed that the parser refuses at once would start the fuzzer from nothing.
TEST(fuzz_seeds, every_seed_is_read_to_the_end) {
  for (const auto& [name, bytes] : make_seeds("norm")) {
    EXPECT_GE(fuzz_norm(bytes), 14u) << name;
  }
  for (const auto& [name, bytes] : make_seeds("raw")) EXPECT_GE(fuzz_raw(bytes), 14u) << name;
  for (const auto& [name, bytes] : make_seeds("list")) EXPECT_GE(fuzz_file_list(bytes), 1u) << name;
}

TEST(fuzz_seeds, prefixes_of_seeds_are_refused_or_read) {
  for (const std::string target : {"norm", "raw"}) {
    for (const auto& [name, bytes] : make_seeds(target)) {
      for (std::size_t size = 0; size < bytes.size(); size += 5) {
        const std::string prefix = bytes.substr(0, size);
        const std::uint64_t most = size == 0 ? 0 : 3 * FuzzCase::kMostBatches;
        EXPECT_LE(target == "norm" ? fuzz_norm(prefix) : fuzz_raw(prefix), most) << name;
      }
    }
  }
}

}  // namespace
}  // namespace hugectr::fuzzing
