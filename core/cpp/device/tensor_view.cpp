// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/tensor_view.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// Memory of a resource, given back when the last view of it goes.
std::shared_ptr<void> allocate(const std::shared_ptr<MemoryResource>& memory, std::size_t bytes) {
  void* const data = memory->allocate(bytes, "copy of a tensor");
  return {data, [memory, bytes](void* p) { memory->deallocate(p, bytes); }};
}

}  // namespace

void wait_until_ready(const TensorView& view) {
  if (view.stream != nullptr) view.stream->synchronize();
}

NativeStream native_stream_of(const TensorView& view) {
  HCTR_CHECK(view.ref.device.type != DeviceType::Cpu,
             "a tensor on the CPU takes no stream: it is ready when you have it");
  constexpr std::uintptr_t kLegacyDefaultStream = 1;
  return {view.ref.device, view.stream != nullptr ? view.stream->native()
                                                  : reinterpret_cast<void*>(kLegacyDefaultStream)};
}

void order_after_view(const TensorView& view, std::uintptr_t consumer) {
  const NativeStream ours = native_stream_of(view);
  DeviceBackend::get(ours.device.type)
      .order_streams(ours, {ours.device, reinterpret_cast<void*>(consumer)});
}

void order_before_view(const TensorView& view, std::uintptr_t producer) {
  const NativeStream ours = native_stream_of(view);
  DeviceBackend::get(ours.device.type)
      .order_streams({ours.device, reinterpret_cast<void*>(producer)}, ours);
}

void copy_rows(Stream& stream, const TensorRef& from, const TensorRef& to) {
  HCTR_CHECK(from.dtype == to.dtype && from.shape == to.shape, "can not copy ",
             to_string(from.dtype), " ", to_string(from.shape), " to ", to_string(to.dtype), " ",
             to_string(to.shape));
  if (from.contiguous() && to.contiguous()) {
    stream.copy(to.data, from.data, from.size_in_bytes());
    return;
  }
  const std::size_t element = size_of(from.dtype), bytes = from.row_size() * element;
  for (std::size_t r = 0; r < from.rows(); ++r) {
    stream.copy(static_cast<char*>(to.data) + r * to.row_stride * element,
                static_cast<const char*>(from.data) + r * from.row_stride * element, bytes);
  }
}

TensorView copy_view(const TensorView& view, DeviceId device) {
  const TensorRef& from = view.ref;
  HCTR_CHECK(device.type == DeviceType::Cpu || device == from.device, "a tensor on ",
             to_string(from.device), " can be copied to the host or its own device, not to ",
             to_string(device));
  DeviceBackend& backend = DeviceBackend::get(from.device.type);
  const bool to_host = device.type == DeviceType::Cpu;
  TensorView copy;
  copy.ref = from;
  copy.ref.device = to_host ? DeviceId::host() : device;
  copy.ref.row_stride = from.row_size();
  auto data = allocate(to_host ? make_host_memory_resource() : backend.memory_resource(device),
                       std::max<std::size_t>(from.size_in_bytes(), 1));
  copy.ref.data = data.get();
  copy.owner = std::move(data);
  if (from.size() == 0) return copy;
  std::unique_ptr<Stream> own;
  Stream* stream = view.stream;
  if (stream == nullptr) {
    own = backend.create_stream(from.device.is_host() ? DeviceId{DeviceType::Cpu, 0} : from.device,
                                "copy");
    stream = own.get();
    if (from.device.type == DeviceType::Cuda) {
      backend.order_streams(native_stream_of(view), {from.device, stream->native()});
    }
  }
  copy_rows(*stream, from, copy.ref);
  stream->synchronize();
  return copy;
}

}  // namespace hugectr
