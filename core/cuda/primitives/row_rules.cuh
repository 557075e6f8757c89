// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <utility>

#include "core/cpp/optimizers/optimizers.hpp"

/// The rules of core/cpp/optimizers as kernels over rows of a table use them: what depends on the
/// step lies in device memory, and what a row needs beyond its elements is asked for once a row.
namespace hugectr::cuda {

/// What is done before the rule in a step, in device memory.
struct StepAdjustment {
  Adjustment of;
  float kept;  ///< share of a weight that decay leaves
};

/// What a rule that keeps the last step of rows knows of a row.
template <KeepsLastStep Rule>
using CaughtUp = decltype(std::declval<const Rule&>().row(0.0f, std::int64_t{1}, std::int64_t{1}));

/// kStates, row(run) for the run-th touched row, and operator()(row, w, s0, s1, g) for one element.
template <class Rule>
struct DeviceRowRule {
  static constexpr std::size_t kStates = kStateCount<Rule>;
  const float* rate;  ///< rate_of() the step
  Rule rule;
  __device__ float row(std::size_t) const { return __ldg(rate); }
  __device__ void operator()(float r, float& w, float& s0, float& s1, float g) const {
    rule.element(r, w, s0, s1, g);
  }
};

template <KeepsLastStep Rule>
struct DeviceRowRule<Rule> {
  static constexpr std::size_t kStates = kStateCount<Rule>;
  const CaughtUp<Rule>* rows;  ///< of every touched row
  Rule rule;
  __device__ CaughtUp<Rule> row(std::size_t run) const { return rows[run]; }
  __device__ void operator()(const CaughtUp<Rule>& r, float& w, float& s0, float& s1,
                             float g) const {
    rule.element(r, w, s0, s1, g);
  }
};

}  // namespace hugectr::cuda
