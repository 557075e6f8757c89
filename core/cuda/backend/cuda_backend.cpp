// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/backend/cuda_backend.hpp"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/fork.hpp"
#include "core/cuda/comm/nccl.hpp"
#include "core/cuda/comm/nccl_communicator.hpp"
#include "core/cuda/comm/single_communicator.hpp"
#include "core/cuda/device/copy_scalars.hpp"
#include "core/cuda/device/cublas_lt.hpp"
#include "core/cuda/device/cuda_event.hpp"
#include "core/cuda/device/cuda_stream.hpp"
#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/driver.hpp"
#include "core/cuda/driver/status.hpp"
#include "core/cuda/memory/cuda_memory_resource.hpp"
#include "core/cuda/memory/memory_pool.hpp"

namespace hugectr::cuda {
namespace {

/// 13000 is 13.0.
std::string version_text(int version) { return concat(version / 1000, ".", version % 1000 / 10); }

constexpr const char* kWayOut = ": install driver 580 or newer, or use device \"cpu\"";

/// "driver 535.129.03 (supports CUDA 12.2)", as far as it is known.
std::string describe(const DriverFacts& facts) {
  std::string text = "driver";
  if (!facts.release.empty()) text += " " + facts.release;
  return concat(text, " (supports CUDA ", version_text(facts.cuda), ")");
}

[[noreturn]] void throw_no_use(cudaError_t status) {
  const DriverFacts facts = driver_facts();
  if (facts.cuda == 0) {
    throw DeviceError(concat("no NVIDIA driver is installed on this machine (", facts.load_failure,
                             ")", kWayOut));
  }
  if (facts.cuda < CUDART_VERSION) {
    throw DeviceError(concat("the NVIDIA ", describe(facts), " is too old: this build needs CUDA ",
                             version_text(CUDART_VERSION), kWayOut));
  }
  const bool mismatch =
      status == cudaErrorSystemDriverMismatch || status == cudaErrorCompatNotSupportedOnDevice;
  throw DeviceError(concat("the NVIDIA ", describe(facts), " can not be used: ",
                           cudaGetErrorName(status), ": ", cudaGetErrorString(status),
                           mismatch ? "; the library and the kernel module of the driver differ: "
                                      "restart the machine or container"
                                    : "; see what nvidia-smi says",
                           ", or use device \"cpu\""));
}

std::string visible_devices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "" : concat(" (CUDA_VISIBLE_DEVICES=", visible, ")");
}

/// The version of a library, or why it can not be opened.
std::string version_or_reason(std::string (*version)()) {
  try {
    return version();
  } catch (const std::exception& e) {
    return e.what();
  }
}

/// The default streams belong to whoever names them, all others know their device.
int device_of_stream(const NativeStream& stream) {
  if (reinterpret_cast<std::uintptr_t>(stream.handle) <= 2) return stream.device.index;
  int device = 0;
  HCTR_TRY(cudaStreamGetDevice(static_cast<cudaStream_t>(stream.handle), &device));
  return device;
}

/// The events that a thread orders streams with, one a device. They may be recorded anew at once: a
/// stream waits for what an event was recorded behind when it was told to.
class OrderingEvents {
 public:
  ~OrderingEvents() {
    if (!made_in_.this_process()) return;
    // At the end of the process the driver may be gone; so are the events then.
    for (const auto& [device, event] : events_) static_cast<void>(cudaEventDestroy(event));
  }
  static cudaEvent_t of_this_thread(int device) {
    thread_local OrderingEvents all;
    cudaEvent_t& event = all.events_[device];
    if (event == nullptr) {
      const DeviceGuard guard(device);
      HCTR_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    return event;
  }

 private:
  const MadeIn made_in_;
  std::map<int, cudaEvent_t> events_;
};

class CudaBackend final : public DeviceBackend {
 public:
  DeviceType type() const override { return DeviceType::Cuda; }

  int device_count() const override {
    if (!made_in_.this_process()) {
      throw DeviceError(
          "CUDA can not be used in a process forked from one that has used it: use device \"cpu\" "
          "here, or start processes that import anew, as multiprocessing.get_context('spawn') "
          "does");
    }
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess) return count;
    cudaGetLastError();
    if (status == cudaErrorNoDevice) return 0;
    throw_no_use(status);
  }

  void check_device(int index) const override {
    if (!made_in_.this_process()) device_count();  // says so
    const std::lock_guard lock(mutex_);
    if (checked_.count(index) > 0) return;
    const int count = device_count();
    if (count == 0) {
      throw DeviceError(concat("no CUDA device is visible", visible_devices(),
                               ": check nvidia-smi, or use device \"cpu\""));
    }
    HCTR_CHECK(index >= 0 && index < count, "there is no CUDA device ", index,
               ": this process sees ", count, count == 1 ? " device, 0" : " devices, 0 to ",
               count == 1 ? std::string() : std::to_string(count - 1), visible_devices());
    const DeviceGuard guard(index);
    check_code_for_current_device();
    checked_.insert(index);
  }

  std::string device_name(int index) const override {
    check_device(index);
    cudaDeviceProp properties{};
    HCTR_TRY(cudaGetDeviceProperties(&properties, index));
    return concat(properties.name, ", ", properties.totalGlobalMem >> 20, " MiB, sm_",
                  properties.major, properties.minor);
  }

  std::size_t memory_bytes(int index) const override {
    check_device(index);
    cudaDeviceProp properties{};
    HCTR_TRY(cudaGetDeviceProperties(&properties, index));
    return properties.totalGlobalMem;
  }

  std::string why_no_float8(int index) const override {
    check_device(index);
    int major = 0, minor = 0;
    HCTR_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    HCTR_TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    if (major > 8 || (major == 8 && minor >= 9)) return {};
    return concat("fp8 products need compute capability 8.9, CUDA device ", index, " has ", major,
                  ".", minor, ": mixed_precision_type=\"bfloat16\" runs on it");
  }

  std::unique_ptr<Stream> create_stream(DeviceId device, const std::string& name,
                                        StreamPriority priority) override {
    check_device(device.index);
    return std::make_unique<CudaStream>(device, name, priority);
  }

  std::unique_ptr<Event> create_event(DeviceId device) override {
    check_device(device.index);
    return std::make_unique<CudaEvent>(device.index);
  }

  std::shared_ptr<MemoryResource> memory_resource(DeviceId device) override {
    check_device(device.index);
    return make_cuda_memory_resource(device.index);
  }

  std::shared_ptr<MemoryResource> staging_resource(DeviceId device) override {
    check_device(device.index);
    return make_pinned_memory_resource();
  }

  std::vector<std::unique_ptr<Communicator>> create_communicators(
      const std::vector<DeviceId>& devices, const JobRanks& job) override {
    std::vector<int> indices;
    for (const DeviceId device : devices) {
      check_device(device.index);
      indices.push_back(device.index);
    }
    if (job.process_of_rank.size() == 1) {
      std::vector<std::unique_ptr<Communicator>> alone;
      alone.push_back(make_single_communicator());
      return alone;
    }
    HCTR_CHECK(std::set<int>(indices.begin(), indices.end()).size() == indices.size(),
               "a CUDA device is named twice: every GPU can be in vvgpu once");
    share_memory_between(indices);
    return make_nccl_communicators(indices, job);
  }

  void order_streams(NativeStream before, NativeStream after) override {
    if (before.handle == after.handle && before.device == after.device) return;
    const int from = device_of_stream(before), to = device_of_stream(after);
    const cudaEvent_t event = OrderingEvents::of_this_thread(from);
    {
      const DeviceGuard guard(from);
      HCTR_TRY(cudaEventRecord(event, static_cast<cudaStream_t>(before.handle)));
    }
    const DeviceGuard guard(to);
    HCTR_TRY(cudaStreamWaitEvent(static_cast<cudaStream_t>(after.handle), event));
  }

  DeviceId device_of(const void* data) const override {
    cudaPointerAttributes attributes{};
    HCTR_TRY(cudaPointerGetAttributes(&attributes, data));
    const bool host =
        attributes.type == cudaMemoryTypeUnregistered || attributes.type == cudaMemoryTypeHost;
    return host ? DeviceId::host() : DeviceId{DeviceType::Cuda, attributes.device};
  }

  std::map<std::string, std::string> libraries() const override {
    const DriverFacts facts = driver_facts();
    return {
        {"driver", facts.cuda == 0 ? "not found: " + facts.load_failure
                                   : concat(facts.release, facts.release.empty() ? "" : ", ",
                                            "supports CUDA ", version_text(facts.cuda))},
        {"cudart", concat(version_text(CUDART_VERSION), " (built in)")},
        {"code for", HUGECTR_CUDA_ARCHS},
        {"cuBLASLt", version_or_reason(&cublas_lt_version)},
        {"NCCL", version_or_reason(&nccl_version)},
    };
  }

 private:
  mutable std::mutex mutex_;
  MadeIn made_in_;
  mutable std::set<int> checked_;
};

const struct Registration {
  Registration() { DeviceBackend::add(&cuda_backend()); }
} registration;

}  // namespace

DeviceBackend& cuda_backend() {
  static auto* const backend = new CudaBackend;
  return *backend;
}

}  // namespace hugectr::cuda

/// What libhugectr compares with its own version before it uses anything else of this plug-in.
extern "C" HCTR_API const char* hugectr_plugin_version() { return HUGECTR_VERSION; }
