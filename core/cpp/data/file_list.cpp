// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/file_list.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <sstream>
#include <string_view>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/log.hpp"
#include "core/cpp/data/file_bytes.hpp"
#include "core/cpp/data/regular_file.hpp"
#include "core/cpp/data/text_table.hpp"

namespace hugectr {
namespace {

/// Half a million paths; anything larger is no list.
constexpr std::uint64_t kMostListBytes = std::uint64_t{64} << 20;
/// The mark of UTF-8 that editors of Windows put first.
constexpr std::string_view kMark = "\xEF\xBB\xBF";

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

/// Bytes of the sequence that begins at `at`, or 0 when it is no UTF-8.
std::size_t utf8_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf5   ? 0
                             : lead >= 0xf0 ? 4
                             : lead >= 0xe0 ? 3
                             : lead >= 0xc2 ? 2
                                            : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, half a surrogate pair, or beyond the last character.
  const bool wrong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0) ||
                     (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) >= 0x90);
  return wrong ? 0 : length;
}

}  // namespace

std::vector<std::string> read_file_list(const std::string& path) {
  const auto fail = [&](const auto&... parts) {
    throw DataError(concat("file list '", path, "': ", parts...));
  };
  const OpenedFile opened = open_regular_file(path);
  if (opened.descriptor < 0) {
    fail(opened.refusal, "; a source is the path of a text file that lists data files");
  }
  ::close(opened.descriptor);
  if (opened.size > kMostListBytes) {
    fail("has ", opened.size, " bytes, a list has at most ", kMostListBytes,
         "; a source is the path of a text file that lists data files");
  }
  if (opened.size == 0) fail("is empty; line 1 must be the number of files");
  FileBytes bytes;
  RandomAccessFile(path).read(0, opened.size, bytes);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with(kMark)) text.erase(0, kMark.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0 || text[at] == '\0') {
      fail("byte ", at, " is no UTF-8 text; a source is a text file that lists data files");
    }
    at += length;
  }
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const std::string number = trimmed(line);
  long long count = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), count);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || count < 1) {
    const bool table = number.find_first_of(",\t") != std::string::npos;
    fail("line 1 is '", number.substr(0, 40), "', must be the number of files, 1 or more",
         table ? kTextTableHint : "");
  }
  std::vector<std::string> paths;
  std::size_t surplus = 0;
  while (std::getline(lines, line)) {
    std::string name = trimmed(line);
    if (name.empty()) continue;
    if (paths.size() < static_cast<std::size_t>(count)) {
      paths.push_back(std::move(name));
    } else {
      ++surplus;
    }
  }
  if (paths.size() < static_cast<std::size_t>(count)) {
    fail("line 1 says ", count, " files, but ", paths.size(),
         " paths follow; correct the number or add the missing lines");
  }
  if (surplus > 0) {
    log(LogLevel::Warning, concat("file list '", path, "': line 1 says ", count, " files; ",
                                  surplus, " more paths are not read"));
  }
  return paths;
}

}  // namespace hugectr
