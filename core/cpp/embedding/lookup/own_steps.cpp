// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/own_steps.hpp"

#include <algorithm>

#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

TensorRef OwnSteps::of(const OpContext& context, std::size_t index, const ShardedTable& table,
                       const UpdateScalars& scalars) {
  const TrainedSteps& trained = table.trained_steps();
  if (trained.left_out() == 0) return scalars.step;
  steps_.resize(std::max(steps_.size(), index + 1));
  Tensor2<std::int64_t>& step = steps_[index];
  if (!step.allocated()) {
    const auto arena = DeviceBuffer2::create(table.params().name + " own step",
                                             DeviceAllocator(gpu_.memory_resource()));
    arena->reserve({1}, &step, "number");
    arena->allocate();
  }
  const std::int64_t own = trained.own(scalars.number);
  context.stream->copy_scalars(step.get_ptr(), &own, sizeof own);
  return step.ref();
}

}  // namespace hugectr
