// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/stream.hpp"

namespace hugectr {

/// A stream for a thread that waits for what it submits. On a virtual CPU device the work runs in
/// that thread, at once, and an error is thrown there: no queue, no other thread, nothing to wait
/// for. Elsewhere it is a stream of the device. One thread at a time.
HCTR_API std::unique_ptr<Stream> make_caller_stream(DeviceId device, const std::string& name);

}  // namespace hugectr
