// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/memory/tensor2.hpp"

namespace hugectr {

/// Two pieces of staging memory of a device (pinned on CUDA), used in turn: while the device copies
/// one, the host fills or empties the other. Pinning memory takes longer than a piece travels, so a
/// device keeps its pieces; one thread at a time may use them.
class HCTR_API StagingPieces {
 public:
  static constexpr std::size_t kBytes = std::size_t{8} << 20;  ///< of a piece
  static constexpr std::size_t kCount = 2;

  StagingPieces(DeviceBackend& backend, DeviceId device, const std::string& owner);
  ~StagingPieces();
  StagingPieces(const StagingPieces&) = delete;
  StagingPieces& operator=(const StagingPieces&) = delete;

  char* data(std::size_t piece) const {
    return static_cast<char*>(memory_.get_ptr()) + piece % kCount * kBytes;
  }
  /// Recorded by who copies from or to the piece; waited for before the host touches it.
  Event& copied(std::size_t piece) const { return *copied_[piece % kCount]; }

 private:
  TensorBag2 memory_;
  std::array<std::unique_ptr<Event>, kCount> copied_;
};

}  // namespace hugectr
