// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// Notices that training has no finite loss any more, without a wait inside a step.
///
/// Every device keeps its shares of the loss of the last kWindow steps in its own memory. Every
/// kWindow steps the shares are summed over all devices of the job, where one that is not finite
/// makes the sum so, and copied to the host. The host looks at them kLag steps later, which no
/// device is behind by then, or when it is asked to. So every process sees the same numbers in the
/// same call, and all throw the same error there.
class HCTR_API LossWatch {
 public:
  static constexpr std::int64_t kWindow = 8;
  static constexpr std::int64_t kLag = 4;
  /// With loss scaling a batch that overflows float16 has no finite loss, and is skipped; so many
  /// in a row are no accident.
  static constexpr std::int64_t kPatienceWithLossScaling = 8;

  /// `patience`: steps in a row without a finite loss that are too many.
  LossWatch(ResourceManager& resources, std::int64_t patience);

  /// Behind step number `step`, from 1, of a device, on that device's thread: keeps its share of
  /// the loss. Only enqueues.
  void note(std::size_t local_id, std::int64_t step, const TensorRef& loss);
  /// Before the step behind `step`. Throws NonFiniteLoss when the steps that are known by now say
  /// so, and goes on from there when it is called again.
  void look(std::int64_t step);
  /// The same of all steps up to `step`, which it waits for. Collective.
  void look_at_all(std::int64_t step);
  /// Steps up to `step` say nothing about the weights that there are now.
  void forget(std::int64_t step);

 private:
  struct Device {
    TensorBag2 shares, losses, on_host;  ///< (kWindow) float32; step s has place s % kWindow
    std::unique_ptr<Event> copied;
  };
  void publish(std::size_t local_id);
  /// Looks at the published steps up to `last`. When it throws, nothing of what has been `done` is
  /// looked at again.
  void judge(std::int64_t last, std::int64_t done);

  ResourceManager& resources_;
  std::int64_t patience_;
  std::vector<Device> devices_;
  std::int64_t judged_ = 0;                       ///< steps up to this one have been looked at
  std::int64_t in_a_row_ = 0, first_of_row_ = 0;  ///< steps without a finite loss up to judged_
};

}  // namespace hugectr
