// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "core/cpp/ops/linear.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

/// Whether the forward and the backward of x (40, n) times w (n, m) are marked.
std::pair<bool, bool> marked(std::size_t n, std::size_t m, TensorScalarType dtype) {
  StepSchedule s;
  const auto tensor = [&](const std::string& name, const Shape& shape) {
    return s.add_tensor(name, shape, TensorRole::External, dtype);
  };
  const TensorRef x = tensor("x", {40, n}), w = tensor("w", {n, m}), y = tensor("y", {40, m});
  const TensorRef dw = s.add_tensor("dw", {n, m}, TensorRole::External);
  s.add(Phase::Forward, LinearFwd{.x = x, .w = w, .y = y}, "fc");
  s.add(Phase::Backward, LinearBwd{.x = x, .w = w, .dy = y, .dw = dw}, "fc");
  products_in_fp8(s);
  return {s.records()[0].op.get_if<LinearFwd>()->fp8, s.records()[1].op.get_if<LinearBwd>()->fp8};
}

TEST(ProductsInFp8, AreThoseInSixteenBitsOfWholeRows) {
  constexpr TensorScalarType kBFloat16 = TensorScalarType::BFloat16;
  const std::pair yes(true, true), no(false, false);
  EXPECT_EQ(marked(16, 16, kBFloat16), yes);
  EXPECT_EQ(marked(479, 1024, kBFloat16), yes);
  EXPECT_EQ(marked(15, 64, kBFloat16), no);
  EXPECT_EQ(marked(64, 24, kBFloat16), no);
  EXPECT_EQ(marked(64, 1, kBFloat16), no);
  EXPECT_EQ(marked(64, 64, TensorScalarType::Float32), no);
}

}  // namespace
}  // namespace hugectr
