// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/cpp/base/error.hpp"
#include "core/cuda/device/copy_scalars.hpp"
#include "core/cuda/device/launch.cuh"

namespace hugectr::cuda {
namespace {

struct Scalars {
  unsigned char bytes[kMaxScalarBytes];
};

__global__ void copy_scalars_kernel(unsigned char* dst, Scalars scalars, unsigned bytes) {
  if (threadIdx.x < bytes) dst[threadIdx.x] = scalars.bytes[threadIdx.x];
}

}  // namespace

void copy_scalars(const OpContext& context, void* dst, const void* src, std::size_t bytes) {
  Scalars scalars{};
  std::memcpy(scalars.bytes, src, bytes);
  launch(context, "copy_scalars", dim3(1), dim3(kMaxScalarBytes), 0, copy_scalars_kernel,
         static_cast<unsigned char*>(dst), scalars, static_cast<unsigned>(bytes));
}

void check_code_for_current_device() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, copy_scalars_kernel);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction ||
      status == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();
    int device = 0;
    cudaDeviceProp properties{};
    HCTR_TRY(cudaGetDevice(&device));
    HCTR_TRY(cudaGetDeviceProperties(&properties, device));
    throw DeviceError(concat("CUDA device ", device, " (", properties.name,
                             ") has compute capability ", properties.major, ".", properties.minor,
                             "; this build holds code for ", HUGECTR_CUDA_ARCHS,
                             ": build with -DHUGECTR_CUDA_ARCHS=", properties.major,
                             properties.minor, ", or use device \"cpu\""));
  }
  check_status(status, "cudaFuncGetAttributes", __FILE__, __LINE__);
}

}  // namespace hugectr::cuda
