// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/staging_pieces.hpp"

#include <exception>

namespace hugectr {

StagingPieces::StagingPieces(DeviceBackend& backend, DeviceId device, const std::string& owner)
    : resource_(backend.staging_resource(device)) {
  for (auto& event : copied_) event = backend.create_event(device);
  memory_ =
      resource_->allocate(kCount * kBytes, owner);  // last: nothing gives it back if it throws
}

StagingPieces::~StagingPieces() {
  for (const auto& event : copied_) {
    try {
      event->synchronize();
    } catch (const std::exception&) {  // a device that has failed copies no more
    }
  }
  resource_->deallocate(memory_, kCount * kBytes);
}

}  // namespace hugectr
