// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/crc32.hpp"

#include <array>
#include <cstring>

namespace hugectr {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

/// tables[k][b]: what the byte b does to the sum when k bytes follow it.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320U : 0U);
    tables[0][byte] = sum;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32(const void* data, std::size_t bytes, std::uint32_t before) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t sum = ~before;
  for (; bytes >= 8; bytes -= 8, at += 8) {  // eight at once ("slicing by 8")
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);  // processors are little-endian here, as files are
    word ^= sum;
    sum = 0;
    for (std::size_t k = 0; k < 8; ++k) sum ^= kTables[7 - k][word >> 8 * k & 255];
  }
  for (; bytes > 0; --bytes, ++at) sum = sum >> 8 ^ kTables[0][(sum ^ *at) & 255];
  return ~sum;
}

}  // namespace hugectr
