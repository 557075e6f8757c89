// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Memory that grows without moving: its addresses are set apart once, pages are mapped on demand.
class HCTR_API GrowableMemory {
 public:
  virtual ~GrowableMemory();
  /// First byte; the same for the whole life of the object.
  virtual void* data() const = 0;
  /// Bytes usable now. Newly mapped bytes are zero.
  virtual std::size_t size() const = 0;
  /// The most bytes that grow() can reach.
  virtual std::size_t reserved() const = 0;
  /// Makes at least `bytes` usable; never shrinks. Throws OutOfMemory naming the owner.
  virtual void grow(std::size_t bytes) = 0;
};

/// Where memory of one device comes from. Everything that allocates takes one of these, so no code
/// above core/cpp/device ever names a device.
class HCTR_API MemoryResource {
 public:
  /// Every allocation starts on a multiple of this many bytes.
  static constexpr std::size_t kAlignment = 64;

  virtual ~MemoryResource();
  virtual DeviceId device() const = 0;
  /// More than anybody can have of it: for choosing how many addresses to set apart, never for
  /// whether something fits. The machine's memory unless the device has its own.
  virtual std::size_t most_bytes() const;
  /// Uninitialised bytes. Throws OutOfMemory naming `owner` and the number of bytes.
  virtual void* allocate(std::size_t bytes, std::string_view owner) = 0;
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
  /// Sets addresses apart for up to `max_bytes`; no memory yet.
  virtual std::unique_ptr<GrowableMemory> reserve_growable(std::size_t max_bytes,
                                                           std::string_view owner) = 0;
};

/// The byte that memory of all resources is filled with when it is handed out, and before it is
/// given back: HUGECTR_FILL_MEMORY, 0 to 255, read once. A search for who takes new memory to be
/// zero, or uses what it has given back: 255 makes NaN of it, and -1. Not set: nothing is filled.
/// What grows is zero in any case. Throws InvalidArgument for another value.
HCTR_API std::optional<unsigned char> fill_of_memory();

/// Host memory, seen as belonging to `device` (a virtual CPU device, or DeviceId::host()).
HCTR_API std::shared_ptr<MemoryResource> make_host_memory_resource(
    DeviceId device = DeviceId::host());

}  // namespace hugectr
