// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/storage/linked_segments.hpp"
#include "core/cpp/embedding/storage/segment_file.hpp"
#include "core/cpp/embedding/storage/segment_header.hpp"
#include "tests/fuzz/fuzz_case.hpp"
#include "tests/fuzz/require.hpp"
#include "tests/fuzz/seeds.hpp"

namespace hugectr::fuzzing {
namespace {

constexpr std::size_t kHead = SegmentFile::kHeaderBytes;

GroupShape fuzzed_shape() { return GroupShape(100); }

/// Its checksum is put right: mutations then reach what lies behind it.
void put_right(std::byte* group) {
  constexpr std::size_t kSum = 4;
  const std::uint32_t sum = crc32(group + kSum, fuzzed_shape().bytes() - kSum);
  std::memcpy(group, &sum, sizeof(sum));
}

std::uint64_t read_group(std::string_view input) {
  const GroupShape shape = fuzzed_shape();
  std::vector<std::byte> group(shape.bytes());
  std::memcpy(group.data(), input.data(), std::min(input.size(), group.size()));
  put_right(group.data());
  std::uint32_t segment = 0, place = 0;
  std::memcpy(&segment, &group[8], 4);
  std::memcpy(&place, &group[12], 4);
  if (!shape.damage(group.data(), segment, place).empty()) return 0;
  const std::size_t rows = shape.rows(group.data());
  require(rows > 0 && rows <= shape.capacity(), "rows that are in the group");
  for (std::size_t p = 0; p < rows; ++p) {
    static_cast<void>(shape.number(group.data(), p));
    static_cast<void>(shape.row(group.data(), p)[shape.row_bytes() - 1]);
  }
  return rows;
}

/// On a disk: what reads it follows no link, as those to files in memory are.
class FileOnDisk {
 public:
  explicit FileOnDisk(const std::vector<std::byte>& bytes)
      : path_(concat(std::filesystem::temp_directory_path().string(), "/hctr-fuzz-", ::getpid())) {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    file.close();
    require(static_cast<bool>(file), "a file can be written");
  }
  ~FileOnDisk() { ::unlink(path_.c_str()); }
  FileOnDisk(const FileOnDisk&) = delete;
  FileOnDisk& operator=(const FileOnDisk&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

/// A byte: how many places; places of eight bytes; a segment, of which the manifest says what is.
std::uint64_t read_linked(std::string_view input) {
  const GroupShape shape = fuzzed_shape();
  if (input.empty()) return 0;
  std::vector<std::uint64_t> places(static_cast<std::uint8_t>(input[0]) % 16);
  input.remove_prefix(1);
  if (input.size() < places.size() * 8) return 0;
  if (!places.empty()) std::memcpy(places.data(), input.data(), places.size() * 8);
  input.remove_prefix(places.size() * 8);
  std::vector<std::byte> bytes(input.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), input.data(), bytes.size());
  for (std::size_t at = kHead; at + shape.bytes() <= bytes.size(); at += shape.bytes()) {
    put_right(&bytes[at]);
  }
  const FileOnDisk file(bytes);
  const std::uint32_t head = crc32(bytes.data(), std::min(bytes.size(), kHead));
  std::vector<std::byte> rows(places.size() * shape.row_bytes());
  LinkedSegments(shape.row_bytes(), {{file.path(), bytes.size(), head}}).read(places, rows.data());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t group = places[i] >> 16, position = places[i] & 0xFFFF;
    require(group < (bytes.size() - kHead) / shape.bytes(), "a group of the one segment");
    const std::byte* const there = &bytes[kHead + group * shape.bytes()];
    require(position < shape.rows(there), "a row of the group");
    require(std::memcmp(&rows[i * shape.row_bytes()], shape.row(there, position),
                        shape.row_bytes()) == 0,
            "the row that lies there");
  }
  return places.size();
}

}  // namespace

std::uint64_t fuzz_rows(std::string_view input) {
  if (input.empty()) return 0;
  try {
    const std::string_view rest = input.substr(1);
    return input[0] == 'l' ? read_linked(rest) : read_group(rest);
  } catch (const DataError&) {
    return 0;
  }
}

Seeds rows_seeds() {
  const GroupShape shape = fuzzed_shape();
  SegmentHeader header;
  header.row_bytes = static_cast<std::uint32_t>(shape.row_bytes());
  header.group_bytes = static_cast<std::uint32_t>(shape.bytes());
  header.number = 7;
  std::string head(kHead, '\0'), groups;
  std::memcpy(head.data(), &header, sizeof(header));
  for (std::size_t place = 0; place < 2; ++place) {
    std::vector<std::byte> group(shape.bytes(), std::byte{0x5A});
    shape.seal(group.data(), 4, header.number, place);
    groups.append(reinterpret_cast<const char*>(group.data()), group.size());
  }
  const std::uint64_t places[] = {0, 3, std::uint64_t{1} << 16, std::uint64_t{1} << 16 | 2};
  const std::string at(reinterpret_cast<const char*>(places), sizeof(places));
  return {{"group", "g" + groups.substr(0, shape.bytes())},
          {"linked", std::string("l\4") + at + head + groups}};
}

}  // namespace hugectr::fuzzing
