// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/text_table.hpp"

#include <algorithm>
#include <string_view>

namespace hugectr {
namespace {

constexpr std::uint64_t kLooked = 4096;

}  // namespace

bool begins_as_text_table(const RandomAccessFile& file) {
  FileBytes bytes;
  const std::size_t size = std::min(kLooked, file.size());
  if (size == 0) return false;
  file.read(0, size, bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), size);
  const auto is_text = [](char c) { return c == '\n' || c == '\r' || c == '\t' || (c & ~31) != 0; };
  if (!std::ranges::all_of(text, is_text)) return false;
  const std::size_t line = text.find('\n');
  return line != std::string_view::npos &&
         text.substr(0, line).find_first_of(",\t;") != std::string_view::npos;
}

}  // namespace hugectr
