// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/cpu_backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/cpu_stream.hpp"

namespace hugectr {
namespace {

class CpuBackend final : public DeviceBackend {
 public:
  DeviceType type() const override { return DeviceType::Cpu; }

  /// Virtual devices can be had in any number; one a core is what makes sense by itself.
  int device_count() const override {
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  void check_device(int index) const override {
    HCTR_CHECK(index >= 0, "there is no CPU device ", index,
               ": virtual devices are numbered from 0");
  }
  std::string device_name(int index) const override {
    return concat("virtual CPU device ", index, " (", device_count(), " cores shared)");
  }
  std::size_t memory_bytes(int) const override {
    return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
           static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  }
  std::unique_ptr<Stream> create_stream(DeviceId device, const std::string& name,
                                        StreamPriority) override {
    return make_cpu_stream(device, name);
  }
  std::unique_ptr<Event> create_event(DeviceId) override { return make_cpu_event(); }
  std::shared_ptr<MemoryResource> memory_resource(DeviceId device) override {
    return make_host_memory_resource(device);
  }
  std::shared_ptr<MemoryResource> staging_resource(DeviceId) override {
    return make_host_memory_resource();
  }
  std::vector<std::unique_ptr<Communicator>> create_communicators(const std::vector<DeviceId>&,
                                                                  const JobRanks& job) override {
    return make_host_communicators(job);
  }
};

}  // namespace

DeviceBackend& cpu_backend() {
  static auto* const backend = new CpuBackend;
  return *backend;
}

}  // namespace hugectr
