// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_limit.hpp"

#include <algorithm>

#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {
namespace {

/// Addresses that the tables of a model share: a quarter of the 47 bits that a process has on
/// x86-64 and that CUDA deals out too. The rest is for other models and everything else.
constexpr std::size_t kAddresses = std::size_t{1} << 45;
/// What a row has beside its parts, at most: a key, its places in the index and its slot, time,
/// score, birth and place among the free numbers.
constexpr std::size_t kBesideParts = 128;

}  // namespace

RowBudget rows_without_budget(const MemoryResource& memory, const RowParts& parts,
                              std::size_t sharers) {
  const std::size_t of_memory = memory.most_bytes() / parts.row_bytes();
  const std::size_t of_addresses =
      kAddresses / std::max<std::size_t>(sharers, 1) / (parts.row_bytes() + kBesideParts);
  const std::size_t rows = std::max<std::size_t>(std::min(of_memory, of_addresses), 1);
  if (rows >= kNoRow) {
    return {kNoRow - 1, ", the most that a device can have: use more devices"};
  }
  if (of_memory <= of_addresses) {
    return {rows, " in this device's memory: use more devices or a smaller vector size"};
  }
  return {rows,
          ", its share of the addresses that the tables of a process have: give it "
          "workspace_size_per_gpu_in_mb or max_vocabulary_size_per_gpu (hugectr.torch: max_rows)"};
}

}  // namespace hugectr
