// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/row_updates.hpp"

#include <utility>

#include "core/cpp/device/several.hpp"

namespace hugectr {

void RowUpdates::add(const RowRuns& runs, const RowArrays& arrays, const UpdateScalars& scalars,
                     const TensorRef& step, const OptParams& params) {
  updates_.push_back({.sorted_buckets = runs.sorted_buckets,
                      .unique_rows = runs.distinct,
                      .run_offsets = runs.run_offsets,
                      .run_count = runs.run_count,
                      .gradient = runs.gradient,
                      .scale = runs.scale,
                      .weights = arrays.vectors,
                      .last_step = arrays.last_step,
                      .lr = scalars.lr,
                      .step = step,
                      .unscale = scalars.unscale,
                      .states = arrays.states,
                      .rounding = runs.rounding,
                      .params = params,
                      .longest_run = runs.longest});
  if (!sweeps_untouched_rows(params)) return;
  sweeps_.push_back({.unique_rows = runs.distinct,
                     .run_count = runs.run_count,
                     .weights = arrays.vectors,
                     .lr = scalars.lr,
                     .step = step,
                     .unscale = scalars.unscale,
                     .states = arrays.states,
                     .rounding = runs.rounding,
                     .params = params});
}

void RowUpdates::run(const OpContext& context) {
  run_several(context, std::exchange(updates_, {}));
  run_several(context, std::exchange(sweeps_, {}));
}

}  // namespace hugectr
