// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

/// Rows that are moved whatever they hold, in the largest units that they and their places allow.
namespace hugectr::cuda {

/// Bytes of the units in which rows of `bytes` lie behind each other from both places on.
inline std::size_t row_unit(std::size_t bytes, const void* a, const void* b) {
  const std::uintptr_t places =
      reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | bytes;
  if (places % sizeof(uint4) == 0) return sizeof(uint4);
  return places % sizeof(std::uint32_t) == 0 ? sizeof(std::uint32_t) : sizeof(std::uint8_t);
}

/// Calls f with a unit of that many bytes.
template <class F>
void with_row_unit(std::size_t unit, const F& f) {
  if (unit == sizeof(uint4)) {
    f(uint4{});
  } else if (unit == sizeof(std::uint32_t)) {
    f(std::uint32_t{});
  } else {
    f(std::uint8_t{});
  }
}

}  // namespace hugectr::cuda
