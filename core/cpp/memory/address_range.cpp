// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/address_range.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

namespace hugectr {
namespace {

std::uintptr_t aligned(std::uintptr_t address, std::size_t alignment) {
  return (address + alignment - 1) / alignment * alignment;
}

bool has_limit_of_address_space() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// The middle half of the widest gap between mappings. The kernel puts mappings next to one another
/// and grows the heap from below, so both stay far from there.
std::pair<std::uintptr_t, std::uintptr_t> middle_of_widest_gap() {
  std::pair<std::uintptr_t, std::uintptr_t> gap{0, 0};
  std::uintptr_t last = std::uintptr_t{1} << 32;  // low addresses are left to those who need them
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) != 2) break;
    if (begin > last && begin - last > gap.second - gap.first) gap = {last, begin};
    last = std::max<std::uintptr_t>(last, end);
    // Above the stack only the kernel has pages.
    if (line.find("[stack]") != std::string::npos) break;
  }
  const std::uintptr_t quarter = (gap.second - gap.first) / 4;
  return {gap.first + quarter, gap.second - quarter};
}

/// Which addresses of that gap are claimed.
class Claims {
 public:
  /// The lowest stretch that nobody claims; 0 if there is none.
  std::uintptr_t add(std::size_t bytes, std::size_t alignment) {
    const std::lock_guard lock(mutex_);
    if (last_ == 0) std::tie(first_, last_) = middle_of_widest_gap();
    std::uintptr_t start = aligned(first_, alignment);
    for (const auto& [begin, end] : claimed_) {
      if (start + bytes + alignment <= begin) break;
      start = aligned(end + alignment, alignment);
    }
    if (start > last_ || bytes > last_ - start) return 0;
    claimed_[start] = start + bytes;
    return start;
  }

  void remove(std::uintptr_t start) {
    const std::lock_guard lock(mutex_);
    claimed_.erase(start);
  }

  static Claims& of_process() {
    // Never destroyed: memory of static objects may be freed after it otherwise.
    static Claims* const claims = new Claims;
    return *claims;
  }

 private:
  std::mutex mutex_;
  std::uintptr_t first_ = 0, last_ = 0;
  std::map<std::uintptr_t, std::uintptr_t> claimed_;
};

}  // namespace

std::optional<AddressRange> AddressRange::make(std::size_t bytes, std::size_t alignment) {
  AddressRange range;
  if (!has_limit_of_address_space()) {
    // Room for moving the start to where it is aligned.
    const std::size_t mapped = bytes + alignment;
    void* const mapping =
        mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping != MAP_FAILED) {
      range.mapping_ = mapping;
      range.mapped_ = mapped;
      range.data_ =
          reinterpret_cast<void*>(aligned(reinterpret_cast<std::uintptr_t>(mapping), alignment));
      return range;
    }
  }
  const std::uintptr_t start = Claims::of_process().add(bytes, alignment);
  if (start == 0) {
    errno = ENOMEM;
    return std::nullopt;
  }
  range.data_ = reinterpret_cast<void*>(start);
  return range;
}

AddressRange::AddressRange(AddressRange&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

AddressRange& AddressRange::operator=(AddressRange&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  return *this;
}

AddressRange::~AddressRange() {
  if (data_ == nullptr) return;
  if (!claimed()) {
    munmap(mapping_, mapped_);
    return;
  }
  if (mapped_ > 0) munmap(data_, mapped_);
  Claims::of_process().remove(reinterpret_cast<std::uintptr_t>(data_));
}

bool AddressRange::open(std::size_t from, std::size_t to) {
  char* const start = static_cast<char*>(data_) + from;
  if (!claimed()) return mprotect(start, to - from, PROT_READ | PROT_WRITE) == 0;
  void* const got = mmap(start, to - from, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  if (got != start) {  // a kernel before 4.17 takes the address as a hint
    munmap(got, to - from);
    errno = EEXIST;
    return false;
  }
  mapped_ = to;
  return true;
}

}  // namespace hugectr
