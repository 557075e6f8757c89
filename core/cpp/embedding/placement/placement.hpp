// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/embedding/placement/embedding_type.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

/// A device's own keys of a batch. With one device nothing is copied: they are the batch itself.
struct FilterKeyStorage {
  TensorRef keys;         ///< (n)
  TensorRef row_offsets;  ///< (B * slots of the device + 1) uint32
  TensorRef places;       ///< (n) uint32: where each key lies in the batch; empty if not needed
  TensorRef held;         ///< (keys of the batch) uint32: kNoRow unless frequent; hybrid alone
};

/// Neighbouring devices, by global id.
struct DeviceRange {
  std::size_t first = 0, count = 1;
};

/// Neighbouring columns of a row's vector.
struct ColumnRange {
  std::size_t first = 0, count = 0;
};

/// What some placements need to know beside the slots of a table and the devices of the job.
struct Holders {
  /// Devices that may hold rows: one_device takes the first, by_column deals columns among them.
  /// count 0: all from `first` on.
  DeviceRange devices{0, 0};
  std::size_t vec_size = 0;  ///< d; by_column needs it
};

/// How vectors of whole buckets lie when they have come from their devices, one after the other:
/// vector v of a sample, of `width` columns each, is of device v % devices (embedding_reorder.hpp).
struct Interleave {
  std::size_t devices = 1;
  std::size_t width = 0;
};

/// Which devices hold which rows and columns of one table: an answer to questions, without memory
/// and without a device of its own. It never says what a row is: identity is the table's.
class HCTR_API Placement {
 public:
  Placement(std::size_t slot_num, std::size_t device_count)
      : slot_num_(slot_num), device_count_(device_count) {}
  virtual ~Placement() = default;

  /// What manifests call it.
  virtual const char* name() const = 0;
  /// Devices that hold a row.
  virtual DeviceRange owners(std::uint64_t widened_key, std::size_t slot) const = 0;
  /// Columns that a device holds of its rows; of a device without slots it means nothing.
  virtual ColumnRange columns(std::size_t rank, std::size_t vec_size) const;
  /// Whether a device that has a key of a bucket has all of them: its sums are then whole, else
  /// they are parts to be added up.
  virtual bool whole_buckets() const = 0;
  /// Whether every device has every row: it looks its own samples up, and nothing but gradients
  /// travels.
  virtual bool replicated() const { return false; }
  /// Whether rows are read out of this device: each row out of one of its owners, the first.
  virtual bool reads_out(std::size_t) const { return true; }
  /// Whether a row's only owner has all of it, so that rows may travel instead of sums.
  virtual bool rows_may_travel() const { return true; }
  /// Whether a device takes all keys of a batch: it needs no filter().
  virtual bool takes_all(std::size_t rank) const;
  /// How whole buckets of all devices make up a sample's vectors of d columns.
  virtual Interleave interleave(std::size_t vec_size) const;
  /// Slots in the buckets of a device: bucket = sample * slots + number of the slot there.
  virtual std::size_t slots_of(std::size_t rank) const = 0;
  /// Slot (in the whole table) of a device's bucket.
  virtual SlotOfBucket slot_of_bucket(std::size_t rank) const;
  /// The op that chooses a device's share of a batch, into the buffers of `own`.
  virtual FilterKeys filter(std::size_t rank, const SparseTensor& csr,
                            const FilterKeyStorage& own) const;

  /// The sum of what is given for each slot over the slots of a device.
  std::size_t sum_of_slots(std::size_t rank, const std::vector<std::size_t>& of_slot) const;
  /// Slots of the device that has most.
  std::size_t most_slots() const;
  std::size_t slot_num() const { return slot_num_; }
  std::size_t device_count() const { return device_count_; }

 protected:
  FilterKeys filter_keys(std::size_t rank, const SparseTensor& csr, const FilterKeyStorage& own,
                         bool by_slot) const;

  std::size_t slot_num_, device_count_;
};

HCTR_API std::unique_ptr<Placement> make_placement(PlacementKind kind, std::size_t slot_num,
                                                   std::size_t device_count,
                                                   const Holders& holders = {});
/// The kind that manifests call so. Throws InvalidArgument.
HCTR_API PlacementKind placement_named(const std::string& name);

/// Of rows outside of any model: the device of `device_count` that owns each, its first where there
/// are several. slots (n), or empty: the table has none. Without a `kind`, and where a placement
/// has no rule that deals rows, they are placed as v3's types place those with slots and without.
HCTR_API std::vector<std::uint32_t> row_owners(std::optional<PlacementKind> kind,
                                               std::span<const std::int64_t> keys,
                                               std::span<const std::uint64_t> slots,
                                               std::size_t device_count);

// One file each.
std::unique_ptr<Placement> make_by_key(std::size_t slot_num, std::size_t device_count);
std::unique_ptr<Placement> make_by_slot(std::size_t slot_num, std::size_t device_count);
std::unique_ptr<Placement> make_one_device(std::size_t slot_num, std::size_t device_count,
                                           const Holders& holders);
std::unique_ptr<Placement> make_replicated(std::size_t slot_num, std::size_t device_count);
std::unique_ptr<Placement> make_hybrid(std::size_t slot_num, std::size_t device_count);
/// The other part of a hybrid: its frequent rows.
std::unique_ptr<Placement> make_frequent(std::size_t slot_num, std::size_t device_count);
std::unique_ptr<Placement> make_by_column(std::size_t slot_num, std::size_t device_count,
                                          const Holders& holders);

}  // namespace hugectr
