// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/schedule/captured_range.hpp"
#include "core/cpp/schedule/passes.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

namespace hugectr {

/// A step schedule on one device: every ref has memory, every record its kernel.
class HCTR_API BoundSchedule {
 public:
  /// `external` gives the memory of every External tensor by name; a missing one, or one of
  /// another shape or dtype, throws InvalidArgument naming it.
  /// With `capture` a range of phases that runs again is submitted as a whole where the device can
  /// (a CUDA graph; see CapturedRange). Records beside the step run on `lane`, or in the step
  /// without one; it must outlive the schedule.
  BoundSchedule(const StepSchedule& schedule, const OpContext& context,
                std::shared_ptr<MemoryResource> resource, const std::string& owner,
                const std::map<std::string, TensorRef>& external, bool capture = false,
                ExchangeLane* lane = nullptr);

  /// Names tensors that somebody waits for; before the first run(), once for each set of them.
  /// False when no record of Backward writes any of them.
  bool watch(const std::vector<std::string>& names);
  /// Names tensors that somebody else writes while the first records of Forward run; likewise. How
  /// many records of Forward come before the first that touches one; none does: nothing.
  std::optional<std::size_t> wait_for(const std::vector<std::string>& names);
  /// Submits all records of the phases [first, last] to the context's stream. A range that begins
  /// after Backward waits for the lane. `completed` is called when all records of Backward that
  /// write watched tensors have been submitted, and not all others; `needed` before the first
  /// record of Forward that touches what is waited for; both once for each set of tensors.
  void run(Phase first, Phase last, const std::function<void()>& completed = {},
           const std::function<void()>& needed = {});

  /// Memory of a tensor by name; InvalidArgument if it was fused away (with the way out) or
  /// unknown.
  TensorRef tensor(const std::string& name) const;
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  /// Who holds how much of the arena; the entries of tensors that share memory overlap.
  const std::vector<MemoryReportEntry>& memory_report() const { return report_; }
  /// What the arena takes, in one entry.
  const std::vector<MemoryReportEntry>& arena_report() const { return arena_->report(); }
  /// Names of the op records in the order they run.
  std::vector<std::string> op_names() const;
  /// Pieces of the step that are replayed as a whole by now.
  std::size_t captured_pieces() const;

 private:
  OpContext context_;
  std::shared_ptr<DeviceBuffer2> arena_;
  TensorBag2 memory_;
  std::string owner_;
  bool capture_;
  ExchangeLane* lane_;
  std::vector<OpRecord> records_;  ///< in the order of their phases
  std::map<std::pair<Phase, Phase>, CapturedRange> ranges_;
  std::map<std::string, TensorRef> tensors_;
  std::map<std::string, bool> fused_away_;
  std::vector<MemoryReportEntry> report_;
};

}  // namespace hugectr
