// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/driver/driver.hpp"

#include <dlfcn.h>

#include <fstream>
#include <regex>

#include "core/cpp/base/error.hpp"
#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {
namespace {

template <class F>
void find(F& function, const char* name) {
  void* const address = find_driver_function(name);
  if (address == nullptr) {
    throw DeviceError(concat("the NVIDIA driver has no ", name,
                             ": install driver 580 or newer, or use device \"cpu\""));
  }
  function = reinterpret_cast<F>(address);
}

DriverApi find_all() {
  DriverApi api{};
  find(api.get_error_name, "cuGetErrorName");
  find(api.get_error_string, "cuGetErrorString");
  find(api.mem_get_allocation_granularity, "cuMemGetAllocationGranularity");
  find(api.mem_address_reserve, "cuMemAddressReserve");
  find(api.mem_address_free, "cuMemAddressFree");
  find(api.mem_create, "cuMemCreate");
  find(api.mem_release, "cuMemRelease");
  find(api.mem_map, "cuMemMap");
  find(api.mem_unmap, "cuMemUnmap");
  find(api.mem_set_access, "cuMemSetAccess");
  find(api.tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  return api;
}

}  // namespace

void* find_driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  HCTR_TRY(
      cudaGetDriverEntryPointByVersion(name, &address, CUDART_VERSION, cudaEnableDefault, &found));
  return found == cudaDriverEntryPointSuccess ? address : nullptr;
}

const DriverApi& driver() {
  static const DriverApi api = find_all();
  return api;
}

DriverFacts driver_facts() {
  DriverFacts facts;
  // Stays open, as the run-time's own handle does.
  if (void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto version =
        reinterpret_cast<decltype(&::cuDriverGetVersion)>(dlsym(library, "cuDriverGetVersion"));
    if (version == nullptr || version(&facts.cuda) != CUDA_SUCCESS) {
      facts.load_failure = "libcuda.so.1 does not say its version";
    }
  } else {
    const char* const reason = dlerror();
    facts.load_failure = reason != nullptr ? reason : "libcuda.so.1 can not be opened";
  }
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::smatch found;
  if (std::regex_search(line, found, std::regex(R"(\b\d+\.\d+(\.\d+)?\b)")))
    facts.release = found[0];
  return facts;
}

}  // namespace hugectr::cuda
