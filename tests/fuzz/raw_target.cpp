// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/block_source.hpp"
#include "core/cpp/data/raw_format.hpp"
#include "tests/fuzz/fuzz_case.hpp"

namespace hugectr::fuzzing {

std::uint64_t fuzz_raw(std::string_view input) {
  FuzzCase made;
  if (!parse_case(input, &made)) return 0;
  RawReading raw;
  raw.numbers = {.float_label = made.floats, .float_dense = made.floats};
  raw.keys = RawKeys::All;
  raw.direct = made.direct;
  raw.block_bytes = made.block_bytes;
  raw.keep_bytes = made.keep ? 1 << 20 : 0;
  raw.on_bad_data = made.on_bad_data;
  if (made.offsets) {
    for (std::size_t s = 0; s < made.layout.total_slots(); ++s) {
      raw.slot_offsets.push_back(static_cast<std::int64_t>(s) * 1000);
    }
  }
  BlockReading reading;
  reading.repeat = made.repeat;
  reading.on_bad_data = made.on_bad_data;
  reading.decode_threads = made.threads;
  if (made.shuffle) reading.shuffle = {.seed = 1, .files = false, .blocks = true, .window = 7};
  const std::string file = memory_file(0, made.data);
  return read_case(made, [&] {
    return make_block_source(make_raw_format(file + "\n" + file, made.layout, raw), made.layout,
                             reading);
  });
}

}  // namespace hugectr::fuzzing
