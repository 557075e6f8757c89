// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/row_group.hpp"

#include <algorithm>
#include <cstring>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/aligned_buffer.hpp"

namespace hugectr {
namespace {

struct GroupHeader {
  std::uint32_t crc, rows, segment, place;
};
static_assert(sizeof(GroupHeader) == 16);

constexpr std::size_t kChecked = sizeof(std::uint32_t);  // the sum itself is not in the sum

std::size_t begin_of_rows(std::size_t capacity) {
  return (sizeof(GroupHeader) + capacity * sizeof(std::uint32_t) + 7) / 8 * 8;
}

GroupHeader header_of_group(const std::byte* group) {
  GroupHeader header{};
  std::memcpy(&header, group, sizeof(header));
  return header;
}

}  // namespace

GroupShape::GroupShape(std::size_t row_bytes) : row_bytes_(row_bytes) {
  HCTR_CHECK(row_bytes > 0 && row_bytes <= kMaxRowBytes, "rows on disk have 1 to ", kMaxRowBytes,
             " bytes, asked for ", row_bytes);
  const std::size_t one = begin_of_rows(1) + row_bytes;
  bytes_ = (one + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  capacity_ = std::max<std::size_t>((bytes_ - sizeof(GroupHeader)) / (row_bytes + 4), 1);
  while (capacity_ > 1 && begin_of_rows(capacity_) + capacity_ * row_bytes > bytes_) --capacity_;
  rows_begin_ = begin_of_rows(capacity_);
}

void GroupShape::set_number(std::byte* group, std::size_t position, std::uint32_t number) const {
  std::memcpy(group + sizeof(GroupHeader) + position * sizeof(number), &number, sizeof(number));
}

std::uint32_t GroupShape::number(const std::byte* group, std::size_t position) const {
  std::uint32_t number = 0;
  std::memcpy(&number, group + sizeof(GroupHeader) + position * sizeof(number), sizeof(number));
  return number;
}

std::size_t GroupShape::rows(const std::byte* group) const { return header_of_group(group).rows; }

void GroupShape::seal(std::byte* group, std::size_t rows, std::uint32_t segment,
                      std::size_t place) const {
  std::byte* numbers = group + sizeof(GroupHeader);
  std::memset(numbers + rows * 4, 0, rows_begin_ - sizeof(GroupHeader) - rows * 4);
  std::memset(row(group, rows), 0, bytes_ - rows_begin_ - rows * row_bytes_);
  GroupHeader header{0, static_cast<std::uint32_t>(rows), segment,
                     static_cast<std::uint32_t>(place)};
  std::memcpy(group, &header, sizeof(header));
  header.crc = crc32(group + kChecked, bytes_ - kChecked);
  std::memcpy(group, &header, kChecked);
}

std::string GroupShape::damage(const std::byte* group, std::uint32_t segment,
                               std::size_t place) const {
  const GroupHeader header = header_of_group(group);
  const std::uint32_t crc = crc32(group + kChecked, bytes_ - kChecked);
  if (header.crc != crc) {
    return concat("its checksum is ", header.crc, ", that of its bytes ", crc);
  }
  if (header.segment != segment || header.place != place) {
    return concat("it is group ", header.place, " of segment ", header.segment);
  }
  if (header.rows == 0 || header.rows > capacity_) {
    return concat("it has ", header.rows, " rows of at most ", capacity_);
  }
  return {};
}

}  // namespace hugectr
