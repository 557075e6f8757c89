// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/memory/cuda_memory_resource.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>

#include "core/cpp/base/error.hpp"
#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/status.hpp"
#include "core/cuda/memory/cuda_growable_memory.hpp"
#include "core/cuda/memory/memory_pool.hpp"

namespace hugectr::cuda {
namespace {

[[noreturn]] void throw_out_of_memory(std::string_view owner, std::size_t bytes, int device) {
  char text[96];
  throw OutOfMemory(concat("'", owner, "' asks for ", bytes, " bytes of CUDA device ", device, ": ",
                           describe_free_memory(text),
                           "; use a smaller batch, table budget or vector size, more GPUs, or end "
                           "what else uses this one"));
}

std::size_t total_memory(int device) {
  const DeviceGuard guard(device);
  std::size_t free = 0, total = 0;
  HCTR_TRY(cudaMemGetInfo(&free, &total));
  return total;
}

class CudaMemoryResource final : public MemoryResource {
 public:
  explicit CudaMemoryResource(int device) : device_(device) {}
  DeviceId device() const override { return {DeviceType::Cuda, device_}; }
  std::size_t most_bytes() const override { return total_memory(device_); }

  void* allocate(std::size_t bytes, std::string_view owner) override {
    const DeviceGuard guard(device_);
    const cudaMemPool_t pool = memory_pool(device_);
    const cudaStream_t stream = memory_stream(device_);
    void* data = nullptr;
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    cudaError_t status = cudaMallocFromPoolAsync(&data, size, pool, stream);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      trim_memory_pool(device_);
      status = cudaMallocFromPoolAsync(&data, size, pool, stream);
    }
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw_out_of_memory(owner, bytes, device_);
    }
    check_status(status, "cudaMallocFromPoolAsync", __FILE__, __LINE__);
    if (fill_) HCTR_TRY(cudaMemsetAsync(data, *fill_, size, stream));
    HCTR_TRY(cudaStreamSynchronize(stream));  // from here on any stream may use it
    return data;
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    if (fill_) fill(data, bytes);
    HCTR_TRY_NOTHROW(cudaFreeAsync(data, memory_stream(device_)));
  }

  std::unique_ptr<GrowableMemory> reserve_growable(std::size_t max_bytes,
                                                   std::string_view owner) override {
    return make_cuda_growable_memory(device_, max_bytes, owner);
  }

 private:
  void fill(void* data, std::size_t bytes) const noexcept {
    try {
      const DeviceGuard guard(device_);
      HCTR_TRY_NOTHROW(cudaMemsetAsync(data, *fill_, bytes, memory_stream(device_)));
    } catch (const std::exception&) {  // what goes wrong with the device is said elsewhere
    }
  }

  int device_;
  const std::optional<unsigned char> fill_ = fill_of_memory();
};

class ManagedMemoryResource final : public MemoryResource {
 public:
  explicit ManagedMemoryResource(int device) : device_(device) {}
  DeviceId device() const override { return {DeviceType::Cuda, device_}; }
  std::size_t most_bytes() const override { return total_memory(device_); }

  void* allocate(std::size_t bytes, std::string_view owner) override {
    const DeviceGuard guard(device_);
    std::size_t free = 0;
    std::size_t total = 0;
    HCTR_TRY(cudaMemGetInfo(&free, &total));
    if (bytes > free) throw_out_of_memory(owner, bytes, device_);
    void* data = nullptr;
    HCTR_TRY(cudaMallocManaged(&data, std::max<std::size_t>(bytes, 1), cudaMemAttachGlobal));
    return data;
  }

  void deallocate(void* data, std::size_t) noexcept override { HCTR_TRY_NOTHROW(cudaFree(data)); }

  std::unique_ptr<GrowableMemory> reserve_growable(std::size_t max_bytes,
                                                   std::string_view owner) override {
    return make_cuda_growable_memory(device_, max_bytes, owner);
  }

 private:
  int device_;
};

}  // namespace

std::shared_ptr<MemoryResource> make_cuda_memory_resource(int device) {
  return std::make_shared<CudaMemoryResource>(device);
}

std::shared_ptr<MemoryResource> make_managed_memory_resource(int device) {
  return std::make_shared<ManagedMemoryResource>(device);
}

}  // namespace hugectr::cuda
