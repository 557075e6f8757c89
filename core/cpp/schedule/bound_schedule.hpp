// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/schedule/passes.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

namespace hugectr {

/// A step schedule on one device: every ref has memory, every record its kernel.
class HCTR_API BoundSchedule {
 public:
  /// `external` gives the memory of every External tensor by name; a missing one, or one of
  /// another shape or dtype, throws InvalidArgument naming it.
  BoundSchedule(const StepSchedule& schedule, const OpContext& context,
                std::shared_ptr<MemoryResource> resource, const std::string& owner,
                const std::map<std::string, TensorRef>& external);

  /// Submits all records of the phases [first, last] to the context's stream.
  void run(Phase first, Phase last) const;

  /// Memory of a tensor by name; InvalidArgument if it was fused away (with the way out) or unknown.
  TensorRef tensor(const std::string& name) const;
  const std::vector<MemoryReportEntry>& memory_report() const { return arena_->report(); }

 private:
  OpContext context_;
  std::shared_ptr<DeviceBuffer2> arena_;
  TensorBag2 memory_;
  std::vector<OpRecord> records_;
  std::map<std::string, TensorRef> tensors_;
};

}  // namespace hugectr
