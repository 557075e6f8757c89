// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/device_backend.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/cpu_backend.hpp"

namespace hugectr {
namespace {

constexpr const char* kPluginName = "libhugectr_cuda.so";

struct Registry {
  std::array<std::atomic<DeviceBackend*>, 2> backends{};
  std::mutex opening;  ///< one thread opens the plug-in; its static objects call add()
};

Registry& registry() {
  static auto* const object = new Registry;
  return *object;
}

/// HUGECTR_CUDA_PLUGIN; or the plug-in's place beside this library, where a build with CUDA puts
/// it; or, beside this library's package, that of the wheel hugectr-cuda13.
std::string plugin_path() {
  if (const char* path = std::getenv("HUGECTR_CUDA_PLUGIN"); path != nullptr && *path != '\0') {
    return path;
  }
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&registry), &info) == 0 || info.dli_fname == nullptr) {
    return kPluginName;
  }
  std::error_code ignored;
  const auto package = std::filesystem::absolute(info.dli_fname, ignored).parent_path();
  const auto of_wheel = package.parent_path() / "hugectr_cuda13" / kPluginName;
  const auto beside = package / kPluginName;
  const bool take_wheel =
      !std::filesystem::exists(beside, ignored) && std::filesystem::exists(of_wheel, ignored);
  return (take_wheel ? of_wheel : beside).string();
}

/// Throws DeviceError unless the plug-in says that it is of this version: between two of them the
/// layout of what both use may differ.
void check_version(void* plugin, const std::string& path) {
  using Version = const char* (*)();
  const auto version = reinterpret_cast<Version>(dlsym(plugin, "hugectr_plugin_version"));
  const std::string_view found = version != nullptr ? version() : "unknown";
  if (found == HUGECTR_VERSION) return;
  throw DeviceError(
      concat("the CUDA plug-in ", path, " is of version ", found,
             ", hugectr itself of version " HUGECTR_VERSION
             ": install the two together (pip install \"hugectr[cuda13]==" HUGECTR_VERSION
             "\"), or use device \"cpu\""));
}

DeviceBackend& open_cuda_plugin() {
  Registry& r = registry();
  auto& place = r.backends[static_cast<int>(DeviceType::Cuda)];
  const std::lock_guard lock(r.opening);
  if (DeviceBackend* backend = place.load()) return *backend;
  const std::string path = plugin_path();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw DeviceError(concat(
        "CUDA devices need the plug-in ", kPluginName,
        ", which is not part of this build (looked for ", path,
        "): add its wheel hugectr-cuda13 (made by make wheel-cuda13), or build with it where "
        "nvcc 13 is (HUGECTR_CUDA=ON pip install .), or name the file in "
        "HUGECTR_CUDA_PLUGIN; until then use device \"cpu\""));
  }
  void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    const char* reason = dlerror();
    throw DeviceError(concat("can not open the CUDA plug-in ", path, ": ",
                             reason != nullptr ? reason : "unknown reason",
                             "; check that it is from the same hugectr build and that the CUDA 13 "
                             "driver is installed, or use device \"cpu\""));
  }
  DeviceBackend* const backend = place.exchange(nullptr);  // back when it may be used
  check_version(plugin, path);
  if (backend == nullptr) {
    throw DeviceError(concat("the CUDA plug-in ", path, " was opened but registered no device ",
                             "backend: it is not from this hugectr build, install both together"));
  }
  place.store(backend);
  return *backend;
}

}  // namespace

DeviceBackend::~DeviceBackend() = default;

void DeviceBackend::order_streams(NativeStream, NativeStream) {
  throw InvalidArgument(concat("streams of other libraries work with CUDA devices only, not with ",
                               to_string(type())));
}

DeviceId DeviceBackend::device_of(const void*) const { return DeviceId::host(); }

void DeviceBackend::add(DeviceBackend* backend) {
  HCTR_CHECK(backend != nullptr, "a device backend can not be null");
  registry().backends[static_cast<int>(backend->type())].store(backend);
}

DeviceBackend& DeviceBackend::get(DeviceType type) {
  if (DeviceBackend* backend = registry().backends[static_cast<int>(type)].load()) return *backend;
  return type == DeviceType::Cpu ? cpu_backend() : open_cuda_plugin();
}

std::string DeviceBackend::why_not(DeviceType type) noexcept {
  try {
    if (get(type).device_count() > 0) return "";
    return concat("no ", to_string(type), " device is visible: check the driver and ",
                  "CUDA_VISIBLE_DEVICES, or use device \"cpu\"");
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown reason";
  }
}

}  // namespace hugectr
