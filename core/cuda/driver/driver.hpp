// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <string>

namespace hugectr::cuda {

/// The functions of the driver that the run-time has no name for. They are asked from cudart, so
/// that the plug-in does not link libcuda and loads where there is no driver.
struct DriverApi {
  decltype(&::cuGetErrorName) get_error_name;
  decltype(&::cuGetErrorString) get_error_string;
  decltype(&::cuMemGetAllocationGranularity) mem_get_allocation_granularity;
  decltype(&::cuMemAddressReserve) mem_address_reserve;
  decltype(&::cuMemAddressFree) mem_address_free;
  decltype(&::cuMemCreate) mem_create;
  decltype(&::cuMemRelease) mem_release;
  decltype(&::cuMemMap) mem_map;
  decltype(&::cuMemUnmap) mem_unmap;
  decltype(&::cuMemSetAccess) mem_set_access;
  decltype(&::cuTensorMapEncodeTiled) tensor_map_encode_tiled;
};

/// Throws DeviceError when there is no driver, or one that lacks a function.
const DriverApi& driver();
/// The address of a function of the driver, null when it has none of this name.
void* find_driver_function(const char* name);

/// A function of the driver that the run-time can do without, or null.
template <class F>
F optional_driver_function(const char* name) {
  return reinterpret_cast<F>(find_driver_function(name));
}

/// What is known of the driver without using it.
struct DriverFacts {
  int cuda = 0;              ///< the CUDA version it supports, 13000 for 13.0; 0: there is none
  std::string release;       ///< of the kernel module, "580.65.06"; empty when it does not say
  std::string load_failure;  ///< why libcuda.so.1 can not be opened; empty when it can
};

/// Looks anew at every call. Asks libcuda itself: the run-time answers 0 for one too old to use.
DriverFacts driver_facts();

}  // namespace hugectr::cuda
