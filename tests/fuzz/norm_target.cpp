// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/log.hpp"
#include "core/cpp/data/block_source.hpp"
#include "core/cpp/data/file_list.hpp"
#include "core/cpp/data/norm_format.hpp"
#include "core/cpp/data/norm_record.hpp"
#include "tests/fuzz/fuzz_case.hpp"

namespace hugectr::fuzzing {
namespace {

/// Walks from frame to frame and makes each checksum that of its bytes: mutations then reach what
/// lies behind the checksums.
void repair_checksums(std::string& file) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(file.data());
  for (std::size_t at = 0; at + 5 <= file.size();) {
    const auto length = load<std::int32_t>(bytes + at);
    if (length < 0 || static_cast<std::size_t>(length) > file.size() - at - 5) return;
    const auto size = static_cast<std::size_t>(length);
    bytes[at + 4 + size] = byte_sum(bytes + at + 4, size);
    at += size + 5;
  }
}

}  // namespace

std::uint64_t fuzz_norm(std::string_view input) {
  FuzzCase made;
  if (!parse_case(input, &made)) return 0;
  if (made.checksums && made.repair) repair_checksums(made.data);
  const std::string file = memory_file(0, made.data);
  // The same file twice, so that a batch reaches over the end of one.
  const std::string list = memory_file(1, "2\n" + file + "\n" + file + "\n");
  BlockReading reading;
  reading.repeat = made.repeat;
  reading.on_bad_data = made.on_bad_data;
  // Blocks of a record to such that hold everything.
  const std::uint64_t range_bytes = std::uint64_t{1} << (made.data.size() % 13);
  return read_case(made, [&] {
    return make_block_source(
        make_norm_format(list, made.layout, made.checksums ? Check::Sum : Check::None,
                         made.on_bad_data, nullptr, range_bytes),
        made.layout, reading);
  });
}

std::uint64_t fuzz_file_list(std::string_view input) {
  set_log_level(LogLevel::Silent);
  try {
    return read_file_list(memory_file(0, input)).size();
  } catch (const DataError&) {
    return 0;
  }
}

}  // namespace hugectr::fuzzing
