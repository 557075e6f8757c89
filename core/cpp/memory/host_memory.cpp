// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/address_range.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
/// Address space that growable memory reserves, if it may take so much, whatever the machine has
/// now: a virtual machine's memory can grow while it is used.
constexpr std::size_t kAddresses = std::size_t{512} << 30;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Bytes of memory the machine says it has now. More than that in one piece is refused: the kernel
/// would hand out the address space and kill the process later, when it touches the pages. Pieces
/// that are more together are tried.
std::size_t physical_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
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

/// What the system said, and its limit where that is what refuses.
std::string why_refused(int error) {
  rlimit limit{};
  if (error != ENOMEM || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::strerror(error);
  }
  return concat(std::strerror(error), " (this process may have ", limit.rlim_cur,
                " bytes of address space: `ulimit -v` is ", limit.rlim_cur / 1024, ")");
}

std::optional<unsigned char> fill_from_environment() {
  const char* const text = std::getenv("HUGECTR_FILL_MEMORY");
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  HCTR_CHECK(*end == '\0' && value >= 0 && value <= 255, "HUGECTR_FILL_MEMORY=", text,
             ": give a byte, 0 to 255");
  return static_cast<unsigned char>(value);
}

class HostGrowableMemory final : public GrowableMemory {
 public:
  HostGrowableMemory(std::size_t max_bytes, std::string_view owner)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), owner_(owner) {
    if (max_bytes > SIZE_MAX / 4) {
      throw_out_of_memory(owner_, max_bytes, "more than the address space");
    }
    reserved_ = round_up(std::max<std::size_t>(max_bytes, 1), page_);
    // Its start is aligned so that huge pages can back the rows.
    huge_ = reserved_ >= kHugePage;
    addresses_ = std::min(reserved_, round_up(std::max(physical_bytes(), kAddresses), page_));
    range_ = AddressRange::make(addresses_, huge_ ? kHugePage : page_);
    if (!range_) {
      throw_out_of_memory(owner_, max_bytes,
                          concat("can not reserve address space: ", why_refused(errno)));
    }
    if (!range_->claimed()) advise_huge(0, addresses_);
  }

  void* data() const override { return range_->data(); }
  std::size_t size() const override { return size_; }
  std::size_t reserved() const override { return reserved_; }

  void grow(std::size_t bytes) override {
    if (bytes <= size_) return;
    if (bytes > reserved_) {
      throw_out_of_memory(owner_, bytes, concat("its budget is ", reserved_));
    }
    const std::size_t target = round_up(bytes, page_);
    check_fits(owner_, target - size_);
    if (target > addresses_) {
      throw_out_of_memory(owner_, bytes, concat("its addresses are for ", addresses_));
    }
    if (!range_->open(size_, target)) throw_out_of_memory(owner_, bytes, why_refused(errno));
    if (range_->claimed()) advise_huge(size_, target);
    size_ = target;
  }

 private:
  void advise_huge(std::size_t from, std::size_t to) {  // advice only: an error changes nothing
    if (huge_) madvise(static_cast<char*>(data()) + from, to - from, MADV_HUGEPAGE);
  }

  std::size_t page_;
  std::string owner_;
  bool huge_ = false;
  std::optional<AddressRange> range_;
  std::size_t size_ = 0;
  std::size_t reserved_ = 0;
  std::size_t addresses_ = 0;  ///< bytes of the range
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
    if (status != 0) throw_out_of_memory(owner, bytes, why_refused(status));
    if (huge) madvise(data, bytes, MADV_HUGEPAGE);  // advice only: an error changes nothing
    if (fill_) std::memset(data, *fill_, bytes);
    return data;
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    if (fill_ && data != nullptr) std::memset(data, *fill_, bytes);
    std::free(data);
  }

  std::unique_ptr<GrowableMemory> reserve_growable(std::size_t max_bytes,
                                                   std::string_view owner) override {
    return std::make_unique<HostGrowableMemory>(max_bytes, owner);
  }

 private:
  DeviceId device_;
  const std::optional<unsigned char> fill_ = fill_of_memory();
};

}  // namespace

std::optional<unsigned char> fill_of_memory() {
  static const std::optional<unsigned char> fill = fill_from_environment();
  return fill;
}

GrowableMemory::~GrowableMemory() = default;
MemoryResource::~MemoryResource() = default;
std::size_t MemoryResource::most_bytes() const { return physical_bytes(); }

std::shared_ptr<MemoryResource> make_host_memory_resource(DeviceId device) {
  return std::make_shared<HostMemoryResource>(device);
}

}  // namespace hugectr
