// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace hugectr {

/// Where a row lies on disk. Eight bytes a row is what the index of a table costs.
struct RowLocation {
  std::uint32_t segment = 0;  ///< 0: nowhere
  std::uint16_t group = 0, position = 0;
  auto operator<=>(const RowLocation&) const = default;
};
static_assert(sizeof(RowLocation) == 8);

/// A group of rows, the unit that is read: whole blocks of 4 KiB with a checksum, the numbers of
/// their rows and the rows.
///
///     0   uint32  CRC-32 of all that follows
///     4   uint32  rows in it
///     8   uint32  its segment, uint32  its place in that: a block that a disk has put elsewhere is
///     12          no group there
///     16  uint32  number of each row, for `capacity` of them, then up to a multiple of 8
///         rows    one after the other
class GroupShape {
 public:
  static constexpr std::size_t kMaxRowBytes = std::size_t{1} << 20;

  /// As few blocks as one row needs, and as many rows as fit. Throws InvalidArgument.
  explicit GroupShape(std::size_t row_bytes);

  std::size_t row_bytes() const { return row_bytes_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t capacity() const { return capacity_; }

  std::byte* row(std::byte* group, std::size_t position) const {
    return group + rows_begin_ + position * row_bytes_;
  }
  const std::byte* row(const std::byte* group, std::size_t position) const {
    return group + rows_begin_ + position * row_bytes_;
  }
  void set_number(std::byte* group, std::size_t position, std::uint32_t number) const;
  std::uint32_t number(const std::byte* group, std::size_t position) const;
  std::size_t rows(const std::byte* group) const;

  /// After numbers and rows: what is empty becomes zero, the header is written.
  void seal(std::byte* group, std::size_t rows, std::uint32_t segment, std::size_t place) const;
  /// What is wrong with the bytes of a group read from there; empty if nothing is.
  std::string damage(const std::byte* group, std::uint32_t segment, std::size_t place) const;

 private:
  std::size_t row_bytes_, bytes_ = 0, capacity_ = 0, rows_begin_ = 0;
};

}  // namespace hugectr
