// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

/// Rewrites of a step schedule. Each keeps its meaning: with HUGECTR_FUSE=0 only plan_memory runs
/// and results agree within the tolerances of the op tests.
namespace hugectr {

/// linear_fwd + relu_fwd -> linear_fwd with Activation::Relu, and the backward pair likewise.
HCTR_API void fuse_linear_activation(StepSchedule& schedule);

/// Concat, Slice and Reshape records whose sources may lie in (or whose results may be columns of)
/// one wider tensor become View tensors, and the record goes. An embedding output consumed only by
/// a Concat is thereby written straight into its consumer.
HCTR_API void make_views(StepSchedule& schedule);

/// Where each arena tensor lies: byte offsets such that tensors alive at the same record never
/// overlap. Activations keep their own memory (they can be asked for by name); gradients share.
struct MemoryPlan {
  std::map<int, std::size_t> offsets;  ///< id of a tensor that owns memory -> byte offset
  std::size_t bytes = 0;               ///< arena size
  std::size_t bytes_unshared = 0;      ///< what it would be without sharing
};
HCTR_API MemoryPlan plan_memory(const StepSchedule& schedule, bool share);

/// True unless the environment says HUGECTR_FUSE=0.
HCTR_API bool fusion_enabled();
/// fuse_linear_activation, make_views, refresh_refs; nothing but refresh_refs when fusion is off.
HCTR_API void optimize(StepSchedule& schedule);

}  // namespace hugectr
