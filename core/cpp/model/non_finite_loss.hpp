// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/error.hpp"

namespace hugectr {

/// Training has no finite loss any more (Python: RuntimeError). Not one of the core's other errors,
/// because no argument, file or device is at fault: scripts catch it to go on from a checkpoint
/// with other settings. All processes of a job throw it in the same call.
class HCTR_API NonFiniteLoss : public Error {
 public:
  using Error::Error;
  NonFiniteLoss(const NonFiniteLoss&) = default;
  NonFiniteLoss& operator=(const NonFiniteLoss&) = default;
  ~NonFiniteLoss() override;
};

}  // namespace hugectr
