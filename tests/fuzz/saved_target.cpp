// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/checkpoints/manifest.hpp"
#include "tests/fuzz/fuzz_case.hpp"
#include "tests/fuzz/require.hpp"

namespace hugectr::fuzzing {

std::uint64_t fuzz_saved(std::string_view input) {
  try {
    // The checksum is put right: mutations then reach what lies behind it.
    std::string text = sorted_json_text(parse_json(input), "crc32");
    require(sorted_json_text(parse_json(text), "") == text, "sorted text is its own");
    const std::uint32_t sum = crc32(text.data(), text.size());
    if (text.back() != '}') return 0;
    text.back() = ',';
    const Manifest manifest =
        parse_manifest("step-0000000003", concat(text, "\"crc32\":", sum, "}"));
    for (const auto& [name, file] : manifest.files) {
      require(name.find("..") == name.npos || name.find('/') == name.npos, "a name in the folder");
      require(file.bytes == 0 || (file.crc32.size() - 1) <= (file.bytes - 1) / file.chunk_bytes,
              "a checksum a chunk");
    }
    return manifest.files.size();
  } catch (const DataError&) {
    return 0;
  }
}

}  // namespace hugectr::fuzzing
