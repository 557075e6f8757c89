// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "core/cpp/device/stream.hpp"

namespace hugectr::cuda {

/// What `submit` puts into `stream`, as an executable graph. Throws what `submit` throws, and
/// DeviceError when something in it can not be captured; nothing has run then and the stream is as
/// before.
std::unique_ptr<CapturedWork> capture_graph(cudaStream_t stream, int device,
                                            const std::function<void()>& submit);

}  // namespace hugectr::cuda
