// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/embedding/storage/linked_segments.hpp"
#include "tests/cpp/embedding/storage/stores.hpp"

namespace hugectr::testing {

inline std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> read((std::istreambuf_iterator<char>(file)), {});
  const auto* const begin = reinterpret_cast<const std::byte*>(read.data());
  return {begin, begin + read.size()};
}

/// Sealed segments of a store by links in a folder of their own, and where rows are in them: what
/// a checkpoint has of rows on a disk.
struct Linked {
  std::vector<LinkedSegment> segments;
  std::vector<std::uint64_t> places;
  std::vector<std::uint32_t> rows;
};

inline Linked link(const StoredRows& stored, std::span<const std::uint32_t> rows,
                   const std::string& folder) {
  std::filesystem::create_directories(folder);
  Linked linked;
  std::map<std::uint32_t, std::size_t> numbers;
  for (const auto& [number, hold] : stored.segments) {
    SegmentFile& file = hold->file();
    const std::string path = folder + "/" + SegmentFile::name_of(number);
    file.sync();
    std::filesystem::create_hard_link(file.path(), path);
    numbers.emplace(number, linked.segments.size());
    linked.segments.push_back({path, file.sums().bytes(), file.head_sum()});
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (stored.at[i].segment == 0) continue;
    linked.places.push_back(linked_place(numbers.at(stored.at[i].segment), stored.at[i]));
    linked.rows.push_back(rows[i]);
  }
  return linked;
}

inline Linked link(Checked& checked, const std::string& folder) {
  const auto rows = range(0, static_cast<std::uint32_t>(checked.versions.size()));
  return link(checked.store.stored(rows), rows, folder);
}

/// They are the rows of these versions.
inline void check_rows(const Linked& linked, const std::vector<std::uint32_t>& versions,
                       std::size_t row_bytes) {
  std::vector<std::byte> got(linked.places.size() * row_bytes);
  LinkedSegments(row_bytes, linked.segments).read(linked.places, got.data());
  for (std::size_t i = 0; i < linked.rows.size(); ++i) {
    const std::uint32_t row = linked.rows[i];
    const auto expected = content(row, versions[row], row_bytes);
    ASSERT_EQ(std::memcmp(&got[i * row_bytes], expected.data(), row_bytes), 0) << "row " << row;
  }
}

}  // namespace hugectr::testing
