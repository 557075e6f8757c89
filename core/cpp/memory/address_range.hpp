// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Addresses of the process that one owner fills from the start on, so that what lies there never
/// moves. Two kinds: a reserved range is mapped as a whole without memory, and counts as a whole
/// against a limit of address space (`ulimit -v`); a claimed one is mapped only as far as it is
/// used, at addresses where the kernel puts nothing by itself and no other range of this process
/// lies.
class HCTR_API AddressRange {
 public:
  /// `bytes` addresses, more than none, starting on a multiple of `alignment` (a power of two).
  /// Claimed where the process has a limit of address space or the kernel refuses to reserve them.
  /// Nothing if there are no such addresses; errno says why.
  static std::optional<AddressRange> make(std::size_t bytes, std::size_t alignment);

  AddressRange(AddressRange&& other) noexcept;
  AddressRange& operator=(AddressRange&& other) noexcept;
  ~AddressRange();

  void* data() const { return data_; }
  bool claimed() const { return mapping_ == nullptr; }
  /// Makes bytes [from, to) readable and writable; they are zero. Both are multiples of the page
  /// size, and `from` is where the last call ended. False if the system refuses; errno says why.
  bool open(std::size_t from, std::size_t to);

 private:
  AddressRange() = default;
  void* mapping_ = nullptr;  ///< what is reserved; null where addresses are claimed
  std::size_t mapped_ = 0;   ///< bytes to unmap in the end
  void* data_ = nullptr;
};

}  // namespace hugectr
