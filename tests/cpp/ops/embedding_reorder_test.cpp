// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_reorder.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/cpp/ops/op_run.hpp"

namespace hugectr::test {
namespace {

TEST(EmbeddingReorderOp, SlotsOfDevicesComeIntoOrderAndBack) {
  constexpr std::size_t kSamples = 37, kSlots = 5, kDim = 3, kStride = kSlots * kDim + 2;
  for (const std::size_t devices : {1, 2, 3, 5, 8}) {
    OpRun on;
    Floats expected(kSamples * kStride, -1.0f), blocks;
    for (std::size_t r = 0; r < devices; ++r) {  // device r's block: its slots of every sample
      for (std::size_t sample = 0; sample < kSamples; ++sample) {
        for (std::size_t slot = r; slot < kSlots; slot += devices) {
          for (std::size_t c = 0; c < kDim; ++c) {
            blocks.push_back(static_cast<float>(blocks.size()));
            expected[sample * kStride + slot * kDim + c] = blocks.back();
          }
        }
      }
    }
    Floats y(kSamples * kStride, -1.0f), back(blocks.size());
    TensorRef y_ref = on.ref(y, {kSamples, kSlots, kDim});
    y_ref.row_stride = kStride;
    on(EmbeddingReorderFwd{
        .blocks = on.ref(blocks), .y = y_ref, .device_count = static_cast<std::int64_t>(devices)});
    EXPECT_EQ(y, expected) << devices << " devices";
    on(EmbeddingReorderBwd{
        .dy = y_ref, .dblocks = on.ref(back), .device_count = static_cast<std::int64_t>(devices)});
    EXPECT_EQ(back, blocks) << devices << " devices";
  }
}

}  // namespace
}  // namespace hugectr::test
