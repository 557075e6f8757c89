// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"
#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {

/// A stream of the device's own library, which this one may know by its handle only. For CUDA a
/// cudaStream_t; 0 and 1 are the legacy default stream, 2 the calling thread's.
struct NativeStream {
  DeviceId device;  ///< whose default stream; other streams know their device
  void* handle = nullptr;
};

/// All that a kind of device brings besides its op kernels. libhugectr has the CPU's; the CUDA
/// plug-in registers its own when it is opened.
class HCTR_API DeviceBackend {
 public:
  virtual ~DeviceBackend();
  virtual DeviceType type() const = 0;
  /// Devices that can be used now.
  virtual int device_count() const = 0;
  /// Throws InvalidArgument naming the ids there are when `index` is not one of them.
  virtual void check_device(int index) const = 0;
  virtual std::string device_name(int index) const = 0;
  /// Bytes of memory that the device is said to have, for who asks for a part of it; virtual CPU
  /// devices share the machine's. 0: it does not say. Whether bytes are there is found by asking
  /// for them.
  virtual std::size_t memory_bytes(int) const { return 0; }
  /// Why products of fp8 can not run there and the way out; empty when they can.
  virtual std::string why_no_float8(int) const { return {}; }
  virtual std::unique_ptr<Stream> create_stream(
      DeviceId device, const std::string& name,
      StreamPriority priority = StreamPriority::Normal) = 0;
  virtual std::unique_ptr<Event> create_event(DeviceId device) = 0;
  virtual std::shared_ptr<MemoryResource> memory_resource(DeviceId device) = 0;
  /// Host memory that copies to the device overlap with (pinned on CUDA).
  virtual std::shared_ptr<MemoryResource> staging_resource(DeviceId device) = 0;
  /// Communicators of the devices of this process, in the order of their ranks (global ids).
  /// Collective over job.processes, which become theirs.
  virtual std::vector<std::unique_ptr<Communicator>> create_communicators(
      const std::vector<DeviceId>& devices, const JobRanks& job) = 0;
  /// Makes work that `after` gets from now on wait for all that `before` holds now. No thread
  /// waits. The default throws InvalidArgument: the kind has no native streams.
  virtual void order_streams(NativeStream before, NativeStream after);
  /// The device whose memory this is; the host for memory the backend knows nothing of.
  virtual DeviceId device_of(const void* data) const;
  /// What the backend stands on, for people: name -> version and place, or why it can not be used.
  virtual std::map<std::string, std::string> libraries() const { return {}; }

  /// Adds a backend; the object must live as long as the program.
  static void add(DeviceBackend* backend);
  /// The backend of a type; for Cuda this opens the plug-in. Throws DeviceError with the reason and
  /// the way out when there is none.
  static DeviceBackend& get(DeviceType type);
  /// Empty when the type can be used, else why not and what to do about it. Never throws.
  static std::string why_not(DeviceType type) noexcept;
};

}  // namespace hugectr
