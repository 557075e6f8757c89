// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/ops/loops/vec_size_dispatch.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

/// Loops over weights that know nothing of the rule they apply but what
/// core/cpp/optimizers/entry.hpp says.
namespace hugectr {

/// The rule on n neighbouring weights for which `row` is known; their states are at s0 and s1.
/// g == nullptr stands for a zero gradient.
template <class Rule, class Row>
void update_weights(const Rule& given, const Row& given_row, std::size_t n,
                    const float* __restrict g, float* __restrict w, float* __restrict s0,
                    float* __restrict s1) {
  constexpr std::size_t kStates = RowWise<Rule> ? 0 : kStateCount<Rule>;
  // Copies: what is written is seen not to change them.
  const Rule rule = given;
  const Row row = given_row;
  [[maybe_unused]] float none = 0.0f;
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = g ? g[i] : 0.0f;
    if constexpr (kStates == 0) {
      rule.element(row, w[i], none, none, gradient);
    } else if constexpr (kStates == 1) {
      rule.element(row, w[i], s0[i], none, gradient);
    } else {
      rule.element(row, w[i], s0[i], s1[i], gradient);
    }
  }
}

/// Mean of the squares of a row, always added up in the same order.
inline float mean_square(const float* x, std::size_t d) {
  RowLanes lanes{};
  float rest = 0.0f;
  for_columns<0>(
      d,
      [&](std::size_t c) {
        const RowLanes v = load_row(x + c);
        lanes += v * v;
      },
      [&](std::size_t c) { rest += x[c] * x[c]; });
  const float sum = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
                    ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  return (sum + rest) / static_cast<float>(d);
}

}  // namespace hugectr
