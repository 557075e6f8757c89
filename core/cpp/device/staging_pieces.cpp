// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/staging_pieces.hpp"

namespace hugectr {

StagingPieces::StagingPieces(DeviceBackend& backend, DeviceId device, const std::string& owner)
    : resource_(backend.staging_resource(device)),
      memory_(resource_->allocate(kCount * kBytes, owner)) {
  for (auto& event : copied_) event = backend.create_event(device);
}

StagingPieces::~StagingPieces() {
  for (const auto& event : copied_) event->synchronize();
  resource_->deallocate(memory_, kCount * kBytes);
}

}  // namespace hugectr
