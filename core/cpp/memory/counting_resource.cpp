// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/counting_resource.hpp"

#include <unistd.h>

namespace hugectr {
namespace {

class CountingGrowableMemory final : public GrowableMemory {
 public:
  CountingGrowableMemory(std::size_t reserved, std::size_t page)
      : reserved_(reserved), page_(page) {}
  void* data() const override { return nullptr; }
  std::size_t size() const override { return size_; }
  std::size_t reserved() const override { return reserved_; }
  void grow(std::size_t bytes) override {
    if (bytes > size_) size_ = (bytes + page_ - 1) / page_ * page_;
  }

 private:
  std::size_t reserved_, page_, size_ = 0;
};

class CountingResource final : public MemoryResource {
 public:
  explicit CountingResource(DeviceId device) : device_(device) {}
  DeviceId device() const override { return device_; }
  void* allocate(std::size_t, std::string_view) override { return nullptr; }
  void deallocate(void*, std::size_t) noexcept override {}
  std::unique_ptr<GrowableMemory> reserve_growable(std::size_t max_bytes,
                                                   std::string_view) override {
    return std::make_unique<CountingGrowableMemory>(max_bytes, growth_page(device_.type));
  }

 private:
  DeviceId device_;
};

}  // namespace

std::size_t growth_page(DeviceType type) {
  // The granularity of cuMemCreate on every GPU so far.
  constexpr std::size_t kCudaPage = std::size_t{2} << 20;
  return type == DeviceType::Cpu ? static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : kCudaPage;
}

std::shared_ptr<MemoryResource> make_counting_resource(DeviceId device) {
  return std::make_shared<CountingResource>(device);
}

}  // namespace hugectr
