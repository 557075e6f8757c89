// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

class ThreadPool;

/// Runs an op whose tensors are in host memory on any device and waits for it: how Python and
/// tests run one op. On a device that can not reach host memory every tensor is copied there and
/// back, the gaps between strided rows with it, and zeros stand behind the last row as in such a
/// gap; tensors that overlap on the host overlap there too.
/// Throws what the op throws, with the host memory unchanged.
HCTR_API void run_on_host_tensors(const AnyOp& op, DeviceId device, ThreadPool& pool);

}  // namespace hugectr
