// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table_spec.hpp"

#include <algorithm>
#include <cmath>

#include "core/cpp/embedding/table/disk_backing.hpp"
#include "core/cpp/embedding/table/row_tiers.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {
namespace {

constexpr double kInitialBound = 0.05f;

/// Whether slot sizes say how many rows there are, and how large new ones.
bool sized_by_slot(const SparseEmbeddingHashParams& params) {
  return params.identity() == Identity::SlotAndKey && !params.slot_size_array.empty();
}

/// Throws where it can be no disk.
std::size_t rows_on_disk(const std::string& table, const TableDisk& disk, std::size_t row_bytes) {
  const std::size_t rows = rows_of_disk(disk, row_bytes);
  HCTR_CHECK(rows > 0, "table '", table, "': ", disk.bytes,
             " bytes of disk are too few; the least is ", least_disk(row_bytes),
             " for each table and device (a solver's memory= is dealt over them)");
  return rows;
}

}  // namespace

TableSpec table_spec(const SparseEmbeddingHashParams& params, std::uint64_t seed,
                     std::size_t devices) {
  TableSpec spec;
  spec.name = params.name;
  spec.number = params.table_id;
  spec.seed = seed;
  spec.key_type = params.key_type();
  spec.identity = params.identity();
  spec.slot_num = params.slot_num;
  spec.vec_size = params.embedding_vec_size;
  spec.vector_type = params.vector_type;
  spec.opt_params = params.opt_params;
  spec.life = params.life;
  spec.memory = params.memory;
  spec.sharers = params.tables_of_model * devices;
  spec.sinusoidal = params.initial.kind == InitialVectors::Kind::Sinusoidal;
  if (params.initial.bound > 0.0 || !sized_by_slot(params)) {
    spec.initial_bounds = {params.initial.bound > 0.0 ? params.initial.bound : kInitialBound};
    return spec;
  }
  for (const std::size_t size : params.slot_size_array) {
    const auto keys = static_cast<double>(std::max<std::size_t>(size, 1));
    spec.initial_bounds.push_back(std::sqrt(1.0 / keys));
  }
  return spec;
}

std::vector<DirectSlot> direct_slots(const SparseEmbeddingHashParams& params,
                                     const Placement& placement, std::size_t rank) {
  if (!params.direct || !params.pooled() || !sized_by_slot(params)) return {};
  std::vector<DirectSlot> slots(params.slot_num);
  const SlotOfBucket slot_of = placement.slot_of_bucket(rank);
  for (std::uint32_t i = 0; i < placement.slots_of(rank); ++i) {
    DirectSlot& slot = slots.at(slot_of(i));
    slot.size = static_cast<std::int64_t>(params.slot_size_array[slot_of(i)]);
  }
  std::int64_t first = 0, before = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].first = first;
    slots[i].before = before;
    first += slots[i].places();
    before += static_cast<std::int64_t>(params.slot_size_array[i]);
  }
  return slots;
}

std::string keys_of_slot(const SparseEmbeddingHashParams& params, std::size_t slot) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < slot; ++i) before += params.slot_size_array[i];
  const std::size_t size = params.slot_size_array[slot];
  const char* const way_out =
      "correct slot_size_array or the data, or use LocalizedSlotSparseEmbeddingHash, which takes "
      "any key";
  if (size == 0) return concat("those of its slot_size_array, which says 0: ", way_out);
  const std::string others =
      before > 0 ? concat(", or ", before, " to ", before + size - 1, " with the slots before it")
                 : std::string();
  return concat("its ", size, " (0 to ", size - 1, others, "): ", way_out);
}

namespace {

/// What gives a device fewer rows of a table. More devices do not where each of those that have
/// any has all of them.
const char* fewer_rows_on_a_device(const SparseEmbeddingHashParams& params) {
  switch (params.placement_kind()) {
    case PlacementKind::OneDevice:
      return "place it by key, which splits its rows over devices (it is on one)";
    case PlacementKind::Replicated:
      return "place it by key, which splits its rows over devices (each has all of them)";
    case PlacementKind::ByColumn:
      return "place it by key, which splits its rows over devices (each has some columns of all)";
    default:
      return "use more devices";
  }
}

RowBudget budget_of_part(const SparseEmbeddingHashParams& params, const Placement& placement,
                         std::size_t rank) {
  const char* const fewer = fewer_rows_on_a_device(params);
  RowBudget budget{
      params.max_vocabulary_size_per_gpu,
      concat(": raise workspace_size_per_gpu_in_mb or max_vocabulary_size_per_gpu "
             "(hugectr.torch: max_rows; EmbeddingTableConfig: max_vocabulary_size), or ",
             fewer)};
  if (sized_by_slot(params)) {
    const std::size_t rows = params.pooled() ? placement.sum_of_slots(rank, params.slot_size_array)
                                             : params.slot_size_array.front();
    budget = {std::max<std::size_t>(rows, 1),
              concat(" (the sum of slot_size_array over its slots): raise the sizes or ", fewer)};
  }
  if (!params.memory.host) return budget;
  const std::size_t columns = placement.columns(rank, params.embedding_vec_size).count;
  const RowParts parts = parts_of_row(columns, params.vector_type, params.opt_params);
  const auto& disk = params.memory.disk;
  // What the disk can not hold, places on the host must: they hold all rows then.
  const std::size_t rows = disk ? std::max(host_places_of_budget(params.memory, parts),
                                           rows_on_disk(params.name, *disk, parts.row_bytes()))
                                : *params.memory.host / parts.row_bytes();
  if (budget.rows > 0 && budget.rows <= rows) return budget;
  // A budget is an upper bound: it may be larger than any use there is for it.
  if (rows >= kNoRow) {
    return {kNoRow - 1, concat(", the most that a device can have: ", fewer)};
  }
  if (disk) {
    return {rows, ": raise Memory(disk=), or use more processes or a smaller vector size"};
  }
  return {std::max<std::size_t>(rows, 1),
          ": raise Memory(host=), or use more processes or a smaller vector size"};
}

}  // namespace

RowBudget row_budget(const SparseEmbeddingHashParams& params, const Placement& placement,
                     std::size_t rank) {
  RowBudget budget = budget_of_part(params, placement, rank);
  if (params.placement_kind() != PlacementKind::Hybrid || !placement.replicated()) return budget;
  // Nobody asks a device's frequent rows for others.
  std::vector<std::int64_t> keys = params.frequent;
  std::ranges::sort(keys);
  const auto twice = std::ranges::unique(keys);
  const auto frequent = static_cast<std::size_t>(twice.begin() - keys.begin());
  if (budget.rows == 0 || budget.rows > frequent) budget.rows = frequent;
  return budget;
}

std::size_t least_memory(const SparseEmbeddingHashParams& params, const Placement& placement,
                         std::size_t rank, std::size_t rows) {
  if (!params.memory.host || rows >= kNoRow) return 0;
  SparseEmbeddingHashParams unbounded = params;
  unbounded.memory = {};
  const std::size_t otherwise = row_budget(unbounded, placement, rank).rows;
  if (otherwise > 0 && otherwise < rows) return 0;
  const std::size_t columns = placement.columns(rank, params.embedding_vec_size).count;
  const std::size_t row_bytes =
      parts_of_row(columns, params.vector_type, params.opt_params).row_bytes();
  if (!params.memory.disk) return rows * row_bytes;
  TableDisk disk = *params.memory.disk;
  for (disk.bytes = rows * row_bytes; rows_of_disk(disk, row_bytes) < rows;) {
    disk.bytes += disk.bytes / 64 + (std::size_t{1} << 20);
  }
  return disk.bytes;
}

std::unique_ptr<Placement> table_placement(const SparseEmbeddingHashParams& params,
                                           const std::vector<std::size_t>& process_of_device) {
  const std::size_t devices = process_of_device.size(), first = params.placement_device;
  const std::size_t d = params.embedding_vec_size;
  HCTR_CHECK(first < devices, "embedding '", params.name, "' is placed on device ", first,
             ", the job has ", devices, ": give one of 0 to ", devices - 1);
  // A row is read out and loaded as a whole by one process: its columns stay there.
  Holders holders{{first, 0}, d};
  for (std::size_t r = first; r < devices && process_of_device[r] == process_of_device[first];
       ++r) {
    ++holders.devices.count;
  }
  auto placement =
      make_placement(params.placement_kind(), params.buckets_per_sample(), devices, holders);
  const std::vector<std::size_t> widths = state_widths(params.opt_params, d);
  HCTR_CHECK(placement->columns(first, d).count == d || std::ranges::count(widths, 1u) == 0,
             "embedding '", params.name,
             "' is placed by column, and its optimizer has one number a row over all columns: "
             "place it by key, or take AdaGrad instead of RowWiseAdaGrad");
  return placement;
}

std::unique_ptr<Placement> frequent_placement(const SparseEmbeddingHashParams& params,
                                              std::size_t device_count) {
  const bool hybrid = params.placement_kind() == PlacementKind::Hybrid;
  if (!hybrid || device_count == 1 || params.frequent.empty()) return nullptr;
  return make_frequent(params.buckets_per_sample(), device_count);
}

}  // namespace hugectr
