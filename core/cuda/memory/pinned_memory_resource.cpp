// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cuda/driver/status.hpp"
#include "core/cuda/memory/cuda_memory_resource.hpp"

namespace hugectr::cuda {
namespace {

/// Growable host memory whose usable part is pinned, piece by piece as it grows.
class PinnedGrowableMemory final : public GrowableMemory {
 public:
  PinnedGrowableMemory(std::unique_ptr<GrowableMemory> memory, std::string_view owner)
      : memory_(std::move(memory)), owner_(owner) {}
  ~PinnedGrowableMemory() override {
    for (void* piece : pieces_) HCTR_TRY_NOTHROW(cudaHostUnregister(piece));
  }
  PinnedGrowableMemory(const PinnedGrowableMemory&) = delete;
  PinnedGrowableMemory& operator=(const PinnedGrowableMemory&) = delete;

  void* data() const override { return memory_->data(); }
  std::size_t size() const override { return pinned_; }
  std::size_t reserved() const override { return memory_->reserved(); }

  void grow(std::size_t bytes) override {
    memory_->grow(bytes);
    if (memory_->size() <= pinned_) return;
    void* const piece = static_cast<char*>(memory_->data()) + pinned_;
    const std::size_t more = memory_->size() - pinned_;
    const cudaError_t status = cudaHostRegister(piece, more, cudaHostRegisterPortable);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw OutOfMemory(concat("'", owner_, "' asks for ", more, " bytes more of pinned host ",
                               "memory beside ", pinned_, ", which the system does not give: use ",
                               "fewer rows, or raise the limit of locked memory"));
    }
    check_status(status, "cudaHostRegister", __FILE__, __LINE__);
    pieces_.push_back(piece);
    pinned_ = memory_->size();
  }

 private:
  std::unique_ptr<GrowableMemory> memory_;
  std::string owner_;
  std::vector<void*> pieces_;
  std::size_t pinned_ = 0;
};

class PinnedMemoryResource final : public MemoryResource {
 public:
  DeviceId device() const override { return DeviceId::host(); }

  void* allocate(std::size_t bytes, std::string_view owner) override {
    void* data = nullptr;
    const cudaError_t status =
        cudaHostAlloc(&data, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw OutOfMemory(concat("'", owner, "' asks for ", bytes, " bytes of pinned host memory, ",
                               "which the system does not give: use a smaller batch or fewer "
                               "reader workers, or raise the limit of locked memory"));
    }
    check_status(status, "cudaHostAlloc", __FILE__, __LINE__);
    return data;
  }

  void deallocate(void* data, std::size_t) noexcept override {
    HCTR_TRY_NOTHROW(cudaFreeHost(data));
  }

  std::unique_ptr<GrowableMemory> reserve_growable(std::size_t max_bytes,
                                                   std::string_view owner) override {
    return std::make_unique<PinnedGrowableMemory>(
        make_host_memory_resource()->reserve_growable(max_bytes, owner), owner);
  }
};

}  // namespace

std::shared_ptr<MemoryResource> make_pinned_memory_resource() {
  return std::make_shared<PinnedMemoryResource>();
}

}  // namespace hugectr::cuda
