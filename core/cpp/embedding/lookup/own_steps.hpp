// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/memory/tensor2.hpp"

namespace hugectr {

/// Numbers of the updates of tables, of which some were frozen in steps (TrainedSteps), on the
/// device. Where none was, all have the number of the step, and nothing is written.
class OwnSteps {
 public:
  explicit OwnSteps(GPUResource& gpu) : gpu_(gpu) {}

  /// (1) int64: what an update goes by that is put into the stream of `context` next; of a table,
  /// or of a part of one, that has this index among those who ask.
  TensorRef of(const OpContext& context, std::size_t index, const ShardedTable& table,
               const UpdateScalars& scalars);

 private:
  GPUResource& gpu_;
  std::vector<Tensor2<std::int64_t>> steps_;  ///< (1) each, of those that were frozen
};

}  // namespace hugectr
