// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <set>
#include <string>

#include "core/cpp/base/export.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

namespace hugectr {

/// What a step's tensors are, where their names do not say it.
struct SampleTensors {
  std::set<std::string> external;  ///< External ones with a row a micro-batch, or a row a sample
  std::set<std::string> sums;      ///< (1): each micro-batch has its share of them
};

/// A schedule made for the samples of one micro-batch becomes that of `count` of them:
///
///   Forward  f0 f1    Loss  l0 l1, sums    Backward  b0 b1    Exchange, Update  as they were
///
/// Records run once a micro-batch, in the order they had, but for those that are added with
/// add_once(). A tensor keeps its name and becomes that of all samples: what a caller writes and
/// reads, and the arena's activations, have `count` times the rows, and a micro-batch's part is the
/// View "<name>@micro<m>"; scratch and gradients that nobody reads have memory of their own for
/// each, so that it is shared as before. Weights and their gradients are one. Bits of a sample
/// depend on its micro-batch no more than on its device; sums over samples are taken micro-batch
/// after micro-batch.
///
/// Behind all passes but bucket_wgrad, and before overwrite_gradients runs anew.
HCTR_API void split_samples(StepSchedule& schedule, std::size_t count, const SampleTensors& known);
/// Name of a micro-batch's part of a tensor.
HCTR_API std::string name_in_micro_batch(const std::string& tensor, std::size_t micro_batch);

}  // namespace hugectr
