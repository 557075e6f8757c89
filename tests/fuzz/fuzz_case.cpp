// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_case.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "tests/fuzz/require.hpp"

namespace hugectr::fuzzing {
namespace {

constexpr std::size_t kMostSlots = 3;  // of a sparse input
constexpr std::size_t kMostNnz = 5;    // of a slot

std::size_t digit(char c, std::size_t base) { return static_cast<std::uint8_t>(c) % base; }
char bits(std::initializer_list<bool> flags) {
  int value = 0, bit = 1;
  for (const bool flag : flags) {
    value |= flag ? bit : 0;
    bit *= 2;
  }
  return static_cast<char>(value);
}

}  // namespace

bool parse_case(std::string_view input, FuzzCase* fuzz_case) {
  if (input.size() < kCaseBytes) return false;
  FuzzCase& made = *fuzz_case;
  const auto flag = [&](std::size_t byte, int bit) { return (input[byte] >> bit & 1) != 0; };
  made.checksums = flag(0, 0);
  made.on_bad_data = flag(0, 1) ? OnBadData::Skip : OnBadData::Error;
  made.layout.i64_keys = flag(0, 2);
  made.repeat = flag(0, 4);
  made.repair = flag(0, 5);
  made.jump = flag(0, 6);
  made.floats = flag(1, 0);
  made.direct = flag(1, 1);
  made.offsets = flag(1, 2);
  made.keep = flag(1, 3);
  made.shuffle = flag(1, 4);
  made.layout.label_dim = digit(input[2], 4);
  made.layout.dense_dim = digit(input[3], 4);
  made.batch = 1 + digit(input[4], 16);
  made.threads = digit(input[5], 3);
  made.block_bytes = 1 + digit(input[6], 256);
  const std::size_t inputs = digit(input[7], 3);
  for (std::size_t i = 0; i < inputs; ++i) {
    SparseInput sparse;
    sparse.top_name = "input" + std::to_string(i);
    sparse.slot_num = 1 + digit(input[8 + 4 * i], kMostSlots);
    sparse.is_fixed_length = flag(0, 3);
    for (std::size_t s = 0; s < sparse.slot_num; ++s) {
      sparse.nnz_per_slot.push_back(static_cast<int>(digit(input[9 + 4 * i + s], kMostNnz + 1)));
    }
    made.layout.sparse.push_back(std::move(sparse));
  }
  made.data = input.substr(kCaseBytes);
  return true;
}

std::string case_bytes(const FuzzCase& made) {
  const InputLayout& layout = made.layout;
  const bool fixed = !layout.sparse.empty() && layout.sparse.front().is_fixed_length;
  std::string bytes(kCaseBytes, '\0');
  bytes[0] = bits({made.checksums, made.on_bad_data == OnBadData::Skip, layout.i64_keys, fixed,
                   made.repeat, made.repair, made.jump});
  bytes[1] = bits({made.floats, made.direct, made.offsets, made.keep, made.shuffle});
  bytes[2] = static_cast<char>(layout.label_dim);
  bytes[3] = static_cast<char>(layout.dense_dim);
  bytes[4] = static_cast<char>(made.batch - 1);
  bytes[5] = static_cast<char>(made.threads);
  bytes[6] = static_cast<char>(made.block_bytes - 1);
  bytes[7] = static_cast<char>(layout.sparse.size());
  for (std::size_t i = 0; i < layout.sparse.size(); ++i) {
    const SparseInput& sparse = layout.sparse[i];
    bytes[8 + 4 * i] = static_cast<char>(sparse.slot_num - 1);
    for (std::size_t s = 0; s < sparse.slot_num; ++s) {
      bytes[9 + 4 * i + s] = static_cast<char>(sparse.nnz_per_slot[s]);
    }
  }
  return bytes + made.data;
}

std::string memory_file(std::size_t slot, std::string_view content) {
  static std::array<int, 2> files = {-1, -1};
  int& file = files.at(slot);
  if (file < 0) file = ::memfd_create("fuzz", 0);
  require(file >= 0, "a file in memory can be made");
  require(::ftruncate(file, 0) == 0 && ::pwrite(file, content.data(), content.size(), 0) ==
                                           static_cast<ssize_t>(content.size()),
          "a file in memory can be written");
  return "/proc/self/fd/" + std::to_string(file);
}

}  // namespace hugectr::fuzzing
