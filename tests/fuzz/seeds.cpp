// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/seeds.hpp"

#include "core/cpp/base/error.hpp"
#include "tests/cpp/data/norm_data.hpp"
#include "tests/fuzz/fuzz_case.hpp"

namespace hugectr::fuzzing {
namespace {

using testing::append;

/// Variants of the model's Input and of the switches, the same for Norm and Raw.
std::vector<FuzzCase> cases() {
  std::vector<FuzzCase> made;
  for (const bool i64 : {false, true}) {
    for (const bool fixed : {false, true}) {
      for (const bool repeat : {false, true}) {
        FuzzCase one;
        one.layout = testing::make_layout(1, 2, i64, {{1, 1}, {2, 0, 5}});
        for (SparseInput& input : one.layout.sparse) input.is_fixed_length = fixed;
        one.repeat = repeat;
        one.on_bad_data = repeat ? OnBadData::Skip : OnBadData::Error;
        one.batch = 3;
        one.threads = i64 ? 0 : 1;
        one.direct = one.offsets = repeat;
        one.floats = one.keep = fixed;
        one.shuffle = fixed && repeat;
        made.push_back(one);
      }
    }
  }
  return made;
}

std::string raw_bytes(const FuzzCase& made, const std::vector<testing::Sample>& samples) {
  std::string bytes;
  for (const testing::Sample& sample : samples) {
    for (const auto* values : {&sample.label, &sample.dense}) {
      for (const float value : *values) {
        made.floats ? append(bytes, value) : append(bytes, static_cast<std::int32_t>(9 * value));
      }
    }
    for (const auto& keys : sample.keys) {
      for (const std::int64_t key : keys) append(bytes, static_cast<std::uint32_t>(key));
    }
  }
  return bytes;
}

std::vector<testing::Sample> samples_of(const InputLayout& layout) {
  std::mt19937 random(5);
  return testing::make_samples(layout, 7, 0, random);
}

}  // namespace

Seeds make_seeds(const std::string& target) {
  Seeds seeds;
  if (target == "list") {
    seeds = {{"two", "2\na.data\nb.data\n"},
             {"spaces", " 1\r\n\r\n  folder/a b.data \r\nnot read\n"}};
    return seeds;
  }
  HCTR_CHECK(target == "norm" || target == "raw", "seeds: '", target,
             "' is no target, allowed are norm, raw, list");
  for (FuzzCase& made : cases()) {
    const std::string name = target + std::to_string(seeds.size());
    if (target == "raw") {
      InputLayout exact = made.layout;
      for (SparseInput& input : exact.sparse) input.is_fixed_length = true;
      made.data = raw_bytes(made, samples_of(exact));
      seeds.emplace_back(name, case_bytes(made));
      continue;
    }
    for (const Check check : {Check::Sum, Check::None}) {
      made.checksums = made.repair = check == Check::Sum;
      made.data = testing::norm_bytes(samples_of(made.layout), made.layout, check);
      seeds.emplace_back(name + (made.checksums ? "sum" : "none"), case_bytes(made));
    }
  }
  return seeds;
}

}  // namespace hugectr::fuzzing
