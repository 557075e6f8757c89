// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// Memory handed out of, or taken into, the library: what it looks like, what keeps it alive, and
/// in which order it is used. Nothing is copied.
struct TensorView {
  TensorRef ref;
  std::shared_ptr<const void> owner;  ///< the memory stays as long as this does
  /// Stream in whose order the owner uses the memory; lives as long as `owner`. Null for foreign
  /// memory: on the host it is ready, on CUDA in the order of its device's legacy default stream.
  Stream* stream = nullptr;
};

/// Blocks until what the view's stream was given has run: the host may then read CPU memory.
HCTR_API void wait_until_ready(const TensorView& view);

/// The native stream in whose order the memory of a CUDA device is used.
HCTR_API NativeStream native_stream_of(const TensorView& view);

/// Makes work that `consumer` gets from now on wait for all that the view's stream holds now.
/// InvalidArgument for memory of the CPU, which has no native streams.
HCTR_API void order_after_view(const TensorView& view, std::uintptr_t consumer);
/// Makes later work on a foreign view wait for all that `producer` holds now.
HCTR_API void order_before_view(const TensorView& view, std::uintptr_t producer);

/// A packed copy on the host (of any device's memory) or on `device` that owns its memory; waits
/// for it. Only the host and the view's own device are possible places (InvalidArgument).
HCTR_API TensorView copy_view(const TensorView& view, DeviceId device);

/// Copies `from` to `to`, of the same shape and dtype, in the order of `stream`, row by row where
/// rows are not packed. Both must stay until it has run.
HCTR_API void copy_rows(Stream& stream, const TensorRef& from, const TensorRef& to);

}  // namespace hugectr
