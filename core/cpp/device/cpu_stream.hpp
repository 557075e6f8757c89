// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "core/cpp/device/stream.hpp"

namespace hugectr {

/// Stream of a virtual CPU device: an in-order queue with a thread of its own (see Stream). The
/// destructor runs what is queued and joins the thread; an error nobody asked for is dropped.
std::unique_ptr<Stream> make_cpu_stream(DeviceId device, const std::string& name);

/// Event of CPU streams, with CUDA's meaning: wait() and synchronize() refer to the last record()
/// made before them; a later record() does not move them.
std::unique_ptr<Event> make_cpu_event();

}  // namespace hugectr
