// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/memory/cuda_growable_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/driver.hpp"
#include "core/cuda/driver/status.hpp"
#include "core/cuda/memory/memory_pool.hpp"

namespace hugectr::cuda {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

CUmemAllocationProp page_properties(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

class CudaGrowableMemory final : public GrowableMemory {
 public:
  CudaGrowableMemory(int device, std::size_t max_bytes, std::string_view owner)
      : device_(device), owner_(owner) {
    const DeviceGuard guard(device_);
    const CUmemAllocationProp properties = page_properties(device_);
    HCTR_TRY(driver().mem_get_allocation_granularity(&page_, &properties,
                                                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    if (max_bytes > SIZE_MAX / 4) throw_out_of_memory(max_bytes, "more than the address space");
    reserved_ = round_up(std::max<std::size_t>(max_bytes, 1), page_);
    const CUresult status = driver().mem_address_reserve(&data_, reserved_, 0, 0, 0);
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
      throw_out_of_memory(max_bytes, "the driver has no such range of addresses left");
    }
    HCTR_TRY(status);
  }

  ~CudaGrowableMemory() override {
    if (size_ > 0) HCTR_TRY_NOTHROW(driver().mem_unmap(data_, size_));
    HCTR_TRY_NOTHROW(driver().mem_address_free(data_, reserved_));
  }
  CudaGrowableMemory(const CudaGrowableMemory&) = delete;
  CudaGrowableMemory& operator=(const CudaGrowableMemory&) = delete;

  void* data() const override { return reinterpret_cast<void*>(data_); }
  std::size_t size() const override { return size_; }
  std::size_t reserved() const override { return reserved_; }

  void grow(std::size_t bytes) override {
    if (bytes <= size_) return;
    if (bytes > reserved_) throw_out_of_memory(bytes, concat("its budget is ", reserved_));
    const DeviceGuard guard(device_);
    const std::size_t more = round_up(bytes, page_) - size_;
    map(more, create(more, bytes));
    const cudaStream_t stream = memory_stream(device_);
    void* const begin = reinterpret_cast<void*>(data_ + size_);
    try {
      HCTR_TRY(cudaMemsetAsync(begin, 0, more, stream));
      HCTR_TRY(cudaStreamSynchronize(stream));
    } catch (...) {
      HCTR_TRY_NOTHROW(driver().mem_unmap(data_ + size_, more));
      throw;
    }
    size_ += more;
  }

 private:
  [[noreturn]] void throw_out_of_memory(std::size_t bytes, const std::string& reason) const {
    throw OutOfMemory(concat("'", owner_, "' asks for ", bytes, " bytes of CUDA device ", device_,
                             ": ", reason,
                             "; use a smaller table budget or vector size, more GPUs, or end what "
                             "else uses this one"));
  }

  CUmemGenericAllocationHandle create(std::size_t more, std::size_t wanted) const {
    const CUmemAllocationProp properties = page_properties(device_);
    CUmemGenericAllocationHandle pages{};
    CUresult status = driver().mem_create(&pages, more, &properties, 0);
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
      trim_memory_pool(device_);
      status = driver().mem_create(&pages, more, &properties, 0);
    }
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
      char text[96];
      throw_out_of_memory(wanted, concat("it has ", size_, ", and ", describe_free_memory(text)));
    }
    HCTR_TRY(status);
    return pages;
  }

  /// Maps the pages after those there are; they go when they are unmapped.
  void map(std::size_t more, CUmemGenericAllocationHandle pages) const {
    const CUdeviceptr begin = data_ + size_;
    const CUresult mapped = driver().mem_map(begin, more, 0, pages, 0);
    HCTR_TRY_NOTHROW(driver().mem_release(pages));
    HCTR_TRY(mapped);
    std::vector<CUmemAccessDesc> access;
    for (const int device : devices_with_access(device_)) {
      access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    }
    const CUresult allowed = driver().mem_set_access(begin, more, access.data(), access.size());
    if (allowed != CUDA_SUCCESS) HCTR_TRY_NOTHROW(driver().mem_unmap(begin, more));
    HCTR_TRY(allowed);
  }

  int device_;
  std::string owner_;
  std::size_t page_ = 0;
  CUdeviceptr data_ = 0;
  std::size_t size_ = 0;
  std::size_t reserved_ = 0;
};

}  // namespace

std::unique_ptr<GrowableMemory> make_cuda_growable_memory(int device, std::size_t max_bytes,
                                                          std::string_view owner) {
  return std::make_unique<CudaGrowableMemory>(device, max_bytes, owner);
}

}  // namespace hugectr::cuda
