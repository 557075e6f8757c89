// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/distinct_keys.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"

namespace hugectr {
namespace {

struct PlacedKey {
  std::int64_t key;
  std::uint32_t place;  ///< among the keys of its table
};

/// Ascending keys, equal ones in the order of the batch: by digits of 8 bits, without those that
/// all keys have in common.
std::vector<PlacedKey> sorted_keys(const std::int64_t* keys, std::size_t n) {
  constexpr std::size_t kDigits = 8, kValues = 256;
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  std::vector<PlacedKey> sorted(n), other(n);
  std::array<std::array<std::uint32_t, kValues>, kDigits> counts{};
  const auto digit_of = [](std::int64_t key, std::size_t digit) {
    return ((static_cast<std::uint64_t>(key) ^ kSign) >> (8 * digit)) % kValues;
  };
  for (std::size_t i = 0; i < n; ++i) {
    sorted[i] = {keys[i], static_cast<std::uint32_t>(i)};
    for (std::size_t digit = 0; digit < kDigits; ++digit) ++counts[digit][digit_of(keys[i], digit)];
  }
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    auto& begins = counts[digit];
    if (n == 0 || begins[digit_of(keys[0], digit)] == n) continue;
    std::exclusive_scan(begins.begin(), begins.end(), begins.begin(), 0u);
    for (const PlacedKey& one : sorted) other[begins[digit_of(one.key, digit)]++] = one;
    sorted.swap(other);
  }
  return sorted;
}

/// The keys of one table on their way to their sections.
struct TableKeys {
  std::vector<PlacedKey> sorted;
  std::int64_t owner = -1;  ///< of all; negative: of a key its remainder
  std::uint64_t processes = 1;

  std::size_t owner_of(std::int64_t key) const {
    return owner >= 0 ? static_cast<std::size_t>(owner)
                      : static_cast<std::size_t>(static_cast<std::uint64_t>(key) % processes);
  }
  bool starts_row(std::size_t i) const { return i == 0 || sorted[i].key != sorted[i - 1].key; }
};

void distinct_keys_kernel(const OpContext& context, const DistinctKeys& op) {
  const std::size_t tables = op.keys.size(), sections = op.sections();
  const auto processes = static_cast<std::size_t>(op.processes);
  std::int64_t* const rows = op.counts.ptr<std::int64_t>();
  std::int64_t* const keys = rows + sections;
  std::fill_n(rows, 2 * sections, 0);
  std::vector<TableKeys> of_tables(tables);
  const auto section_of = [&](std::size_t t, std::int64_t key) {
    return of_tables[t].owner_of(key) * tables + static_cast<std::size_t>(op.ranks[t]);
  };
  const auto of_all = [&](const auto& body) {
    parallel_for(*context.pool, tables, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t t = begin; t < end; ++t) body(t);
    });
  };
  of_all([&](std::size_t t) {
    TableKeys& own = of_tables[t];
    own = {sorted_keys(op.keys[t].ptr<std::int64_t>(), op.keys[t].size()), op.owners[t],
           static_cast<std::uint64_t>(processes)};
    for (std::size_t i = 0; i < own.sorted.size(); ++i) {
      const std::size_t section = section_of(t, own.sorted[i].key);
      ++keys[section];
      if (own.starts_row(i)) ++rows[section];
    }
  });

  std::int64_t largest = std::numeric_limits<std::int64_t>::min();
  std::vector<std::size_t> first_key(tables), row_starts(sections), key_starts(sections);
  std::vector<std::size_t> of_group(sections);  // rows of the group before the section
  std::vector<std::size_t> grouped(tables);
  std::size_t row = 0, key = 0, before = 0;
  for (std::size_t s = 0; s < sections; ++s) {
    const auto group = static_cast<std::size_t>(op.groups[s % tables]);
    row_starts[s] = std::exchange(row, row + static_cast<std::size_t>(rows[s]));
    key_starts[s] = std::exchange(key, key + static_cast<std::size_t>(keys[s]));
    of_group[s] = std::exchange(grouped[group], grouped[group] + static_cast<std::size_t>(rows[s]));
  }
  for (std::size_t t = 0; t < tables; ++t) {
    first_key[t] = std::exchange(before, before + op.keys[t].size());
    const std::vector<PlacedKey>& sorted = of_tables[t].sorted;
    if (!sorted.empty()) largest = std::max(largest, sorted.back().key);
  }
  *op.largest.ptr<std::int64_t>() = largest;
  for (const TableKeys& own : of_tables) {
    for (const PlacedKey& one : own.sorted) *op.seen.ptr<std::int64_t>() |= one.key;
  }

  std::int64_t* const distinct = op.distinct.ptr<std::int64_t>();
  std::uint32_t* const sorted_buckets = op.sorted_buckets.ptr<std::uint32_t>();
  std::uint32_t* const numbers = op.numbers.ptr<std::uint32_t>();
  std::uint32_t* const run_offsets = op.run_offsets.ptr<std::uint32_t>();
  const std::uint32_t* const buckets = op.buckets.ptr<std::uint32_t>();
  of_all([&](std::size_t t) {
    const TableKeys& own = of_tables[t];
    std::vector<std::size_t> next_row(processes), next_key(processes);
    for (std::size_t i = 0; i < own.sorted.size(); ++i) {
      const PlacedKey& one = own.sorted[i];
      const std::size_t section = section_of(t, one.key), owner = section / tables;
      if (own.starts_row(i)) {
        const std::size_t at = row_starts[section] + next_row[owner]++;
        distinct[at] = one.key;
        run_offsets[at + section] = static_cast<std::uint32_t>(next_key[owner]);
      }
      sorted_buckets[key_starts[section] + next_key[owner]++] = buckets[first_key[t] + one.place];
      numbers[first_key[t] + one.place] =
          static_cast<std::uint32_t>(of_group[section] + next_row[owner] - 1);
    }
  });
  for (std::size_t s = 0; s < sections; ++s) {
    run_offsets[row_starts[s] + static_cast<std::size_t>(rows[s]) + s] =
        static_cast<std::uint32_t>(keys[s]);
  }
}

const OpRegistration<DistinctKeys> distinct_keys_cpu{DeviceType::Cpu, &distinct_keys_kernel};

}  // namespace

void DistinctKeys::check() const {
  constexpr auto kUInt32 = TensorScalarType::UInt32, kInt64 = TensorScalarType::Int64;
  const std::size_t tables = keys.size();
  HCTR_CHECK(key_bits >= 0 && key_bits <= 64, kName, ": keys of ", key_bits, " bits");
  HCTR_CHECK(tables > 0 && processes >= 1 && owners.size() == tables && ranks.size() == tables &&
                 groups.size() == tables,
             kName, ": ", tables, " tables, ", owners.size(), " owners, ", ranks.size(),
             " ranks and ", groups.size(), " groups: must be as many, of at least one process");
  std::vector<bool> ranked(tables);
  for (std::size_t t = 0; t < tables; ++t) {
    HCTR_CHECK(owners[t] < processes, kName, ": owner ", owners[t], " of ", processes);
    const bool fits = ranks[t] >= 0 && static_cast<std::size_t>(ranks[t]) < tables;
    HCTR_CHECK(fits && !ranked[static_cast<std::size_t>(ranks[t])], kName,
               ": ranks must be a permutation of 0 .. ", tables - 1);
    ranked[static_cast<std::size_t>(ranks[t])] = true;
    const std::int64_t before = t == 0 ? 0 : groups[t - 1];
    HCTR_CHECK(groups[t] == before || (t > 0 && groups[t] == before + 1), kName,
               ": groups must ascend from 0 by at most 1");
  }
  std::size_t n = 0;
  for (const TensorRef& each : keys) {
    check_array(kName, "keys", each, kInt64, each.size());
    n += each.size();
  }
  HCTR_CHECK(n + sections() <= 0xFFFFFFFFu, kName, ": ", n, " keys are too many for a batch");
  check_array(kName, "buckets", buckets, kUInt32, n);
  check_array(kName, "distinct", distinct, kInt64, n);
  check_array(kName, "sorted_buckets", sorted_buckets, kUInt32, n);
  check_array(kName, "numbers", numbers, kUInt32, n);
  check_array(kName, "run_offsets", run_offsets, kUInt32, n + sections());
  check_array(kName, "counts", counts, kInt64, 2 * sections());
  check_array(kName, "largest", largest, kInt64, 1);
  check_array(kName, "seen", seen, kInt64, 1);
}

}  // namespace hugectr
