// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/staging_pieces.hpp"

#include <exception>

#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

StagingPieces::StagingPieces(DeviceBackend& backend, DeviceId device, const std::string& owner) {
  const auto arena =
      DeviceBuffer2::create(owner, DeviceAllocator(backend.staging_resource(device)));
  memory_ = arena->reserve({kCount * kBytes}, TensorScalarType::UInt8, "pieces");
  arena->allocate();
  for (auto& event : copied_) event = backend.create_event(device);
}

StagingPieces::~StagingPieces() {
  for (const auto& event : copied_) {
    try {
      event->synchronize();
    } catch (const std::exception&) {  // a device that has failed copies no more
    }
  }
}

}  // namespace hugectr
