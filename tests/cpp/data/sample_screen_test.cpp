// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/sample_screen.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kSamples = 7;

/// Samples of one label, two dense values and slots with 2 and 0 to 2 keys; sample i's keys are
/// 10 * i, 10 * i + 1, ...
CSRChunk filled(const InputLayout& layout) {
  CSRChunk chunk = make_csr_chunk(layout, kSamples, make_host_memory_resource());
  HostCsr& csr = chunk.sparse[0];
  csr.keys.reserve(kSamples * 4 * sizeof(std::uint32_t));
  for (std::size_t i = 0; i < kSamples; ++i) {
    chunk.label.as<float>()[i] = static_cast<float>(i % 2);
    chunk.dense.as<float>()[2 * i] = chunk.dense.as<float>()[2 * i + 1] = static_cast<float>(i);
    chunk.weight.as<float>()[i] = 1.0f;
    offset_t* rows = csr.row_offsets.as<offset_t>() + 2 * i;
    rows[0] = static_cast<offset_t>(csr.nnz);
    rows[1] = rows[0] + 2;
    rows[2] = rows[1] + static_cast<offset_t>(i % 3);
    for (std::size_t k = 0; csr.nnz < rows[2]; ++k, ++csr.nnz) {
      csr.keys.as<std::uint32_t>()[csr.nnz] = static_cast<std::uint32_t>(10 * i + k);
    }
  }
  return chunk;
}

InputLayout layout_of(LabelRange labels = {0.0f, 1.0f, "a loss"}) {
  return {1, 2, false, {{"keys", {2, 2}, false, 2}}, {labels}};
}

std::vector<std::string> screen(const InputLayout& layout, OnBadData how, CSRChunk& chunk) {
  std::vector<std::string> found;
  screen_samples(layout, how, 0, kSamples, chunk, [&](std::size_t sample, const BadValue& value) {
    found.push_back(concat(sample, ": ", value.text(layout)));
  });
  return found;
}

TEST(SampleScreen, GoodSamplesStayAsTheyAre) {
  const InputLayout layout = layout_of();
  CSRChunk chunk = filled(layout);
  EXPECT_TRUE(screen(layout, OnBadData::Skip, chunk).empty());
  EXPECT_EQ(chunk.sparse[0].nnz, 2 * kSamples + 6);
}

TEST(SampleScreen, NamesWhatIsWrong) {
  const InputLayout layout = layout_of();
  CSRChunk chunk = filled(layout);
  chunk.label.as<float>()[1] = -1.0f;
  chunk.label.as<float>()[2] = std::nanf("");
  chunk.dense.as<float>()[2 * 4 + 1] = -std::numeric_limits<float>::infinity();
  chunk.sparse[0].keys.as<std::uint32_t>()[0] = 0xffffffffu;
  const auto found = screen(layout, OnBadData::Skip, chunk);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].find("0: slot 0 of 'keys' has the key 4294967295; it is reserved"), 0u);
  EXPECT_EQ(found[1], "1: label 0 is -1; a loss takes labels from 0 to 1");
  EXPECT_EQ(found[2], "2: label 0 is nan; it must be a finite number");
  EXPECT_EQ(found[3], "4: dense value 1 is -inf; it must be a finite number");
}

TEST(SampleScreen, SkippedSamplesLoseLabelDenseAndKeysAndNobodyElseDoes) {
  const InputLayout layout = layout_of();
  CSRChunk chunk = filled(layout);
  chunk.label.as<float>()[3] = 2.0f;
  chunk.label.as<float>()[6] = 2.0f;
  EXPECT_EQ(screen(layout, OnBadData::Skip, chunk).size(), 2u);
  const HostCsr& csr = chunk.sparse[0];
  const auto* rows = csr.row_offsets.as<offset_t>();
  for (std::size_t i = 0; i < kSamples; ++i) {
    const bool bad = i == 3 || i == 6;
    EXPECT_EQ(chunk.weight.as<float>()[i], bad ? 0.0f : 1.0f);
    EXPECT_EQ(chunk.label.as<float>()[i], bad ? 0.0f : static_cast<float>(i % 2));
    EXPECT_EQ(chunk.dense.as<float>()[2 * i], bad ? 0.0f : static_cast<float>(i));
    EXPECT_EQ(rows[2 * i + 1] - rows[2 * i], bad ? 0u : 2u);
    EXPECT_EQ(rows[2 * i + 2] - rows[2 * i + 1], bad ? 0u : i % 3);
    for (std::size_t k = rows[2 * i]; k < rows[2 * i + 2]; ++k) {
      EXPECT_EQ(csr.keys.as<std::uint32_t>()[k], 10 * i + (k - rows[2 * i]));
    }
  }
  EXPECT_EQ(csr.nnz, rows[2 * kSamples]);
}

TEST(SampleScreen, WithoutALossLabelsNeedOnlyBeFinite) {
  const InputLayout layout = layout_of({});
  CSRChunk chunk = filled(layout);
  chunk.label.as<float>()[0] = 1e30f;
  chunk.label.as<float>()[5] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(screen(layout, OnBadData::Error, chunk).size(), 1u);
}

TEST(SampleScreen, TheReservedKeyIsThePlansToFindUnlessItIsToBeSkipped) {
  const InputLayout layout = layout_of();
  CSRChunk chunk = filled(layout);
  chunk.sparse[0].keys.as<std::uint32_t>()[0] = 0xffffffffu;
  EXPECT_TRUE(screen(layout, OnBadData::Error, chunk).empty());
}

}  // namespace
}  // namespace hugectr
