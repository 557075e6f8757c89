// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Bytes of memory the machine has. More than that is refused at once: the kernel would hand out
/// the address space and kill the process later, when it touches the pages.
std::size_t physical_bytes() {
  static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                                   static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

[[noreturn]] void throw_out_of_memory(std::string_view owner, std::size_t bytes,
                                      const std::string& reason) {
  throw OutOfMemory(concat("'", owner, "' asks for ", bytes, " bytes of host memory: ", reason,
                           "; use a smaller batch, table budget or vector size, or a machine with "
                           "more memory"));
}

void check_fits(std::string_view owner, std::size_t bytes) {
  if (bytes > physical_bytes()) {
    throw_out_of_memory(owner, bytes, concat("this machine has ", physical_bytes()));
  }
}

class HostGrowableMemory final : public GrowableMemory {
 public:
  HostGrowableMemory(std::size_t max_bytes, std::string_view owner)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), owner_(owner) {
    if (max_bytes > SIZE_MAX / 4) {
      throw_out_of_memory(owner_, max_bytes, "more than the address space");
    }
    reserved_ = round_up(std::max<std::size_t>(max_bytes, 1), page_);
    // Room for aligning the start, so that huge pages can back the rows.
    mapped_ = reserved_ + (reserved_ >= kHugePage ? kHugePage : 0);
    mapping_ =
        mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping_ == MAP_FAILED) {
      throw_out_of_memory(owner_, max_bytes,
                          concat("can not reserve address space: ", std::strerror(errno)));
    }
    auto start = reinterpret_cast<std::uintptr_t>(mapping_);
    if (reserved_ >= kHugePage) start = round_up(start, kHugePage);
    data_ = reinterpret_cast<void*>(start);
    if (reserved_ >= kHugePage) madvise(data_, reserved_, MADV_HUGEPAGE);  // advice only
  }
  ~HostGrowableMemory() override { munmap(mapping_, mapped_); }
  HostGrowableMemory(const HostGrowableMemory&) = delete;
  HostGrowableMemory& operator=(const HostGrowableMemory&) = delete;

  void* data() const override { return data_; }
  std::size_t size() const override { return size_; }
  std::size_t reserved() const override { return reserved_; }

  void grow(std::size_t bytes) override {
    if (bytes <= size_) return;
    if (bytes > reserved_) {
      throw_out_of_memory(owner_, bytes, concat("its budget is ", reserved_));
    }
    check_fits(owner_, bytes);
    const std::size_t target = round_up(bytes, page_);
    if (mprotect(static_cast<char*>(data_) + size_, target - size_, PROT_READ | PROT_WRITE) != 0) {
      throw_out_of_memory(owner_, bytes, std::strerror(errno));
    }
    size_ = target;
  }

 private:
  std::size_t page_;
  std::string owner_;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  void* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t reserved_ = 0;
};

class HostMemoryResource final : public MemoryResource {
 public:
  explicit HostMemoryResource(DeviceId device) : device_(device) {}
  DeviceId device() const override { return device_; }

  void* allocate(std::size_t bytes, std::string_view owner) override {
    check_fits(owner, bytes);
    const bool huge = bytes >= 2 * kHugePage;
    void* data = nullptr;
    const int status = posix_memalign(&data, huge ? kHugePage : kAlignment,
                                      round_up(std::max<std::size_t>(bytes, 1), kAlignment));
    if (status != 0) throw_out_of_memory(owner, bytes, std::strerror(status));
    if (huge) madvise(data, bytes, MADV_HUGEPAGE);  // advice only: an error changes nothing
    return data;
  }

  void deallocate(void* data, std::size_t) noexcept override { std::free(data); }

  std::unique_ptr<GrowableMemory> reserve_growable(std::size_t max_bytes,
                                                   std::string_view owner) override {
    return std::make_unique<HostGrowableMemory>(max_bytes, owner);
  }

 private:
  DeviceId device_;
};

}  // namespace

GrowableMemory::~GrowableMemory() = default;
MemoryResource::~MemoryResource() = default;

std::shared_ptr<MemoryResource> make_host_memory_resource(DeviceId device) {
  return std::make_shared<HostMemoryResource>(device);
}

}  // namespace hugectr
