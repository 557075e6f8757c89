// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/embedding/exchange/exchange.hpp"

namespace hugectr {

/// A table that all devices have, in a training batch that is being planned.
struct ReplicaLookup {
  const Route* route = nullptr;
  TablePlan* plan = nullptr;
  std::size_t row_count = 0;  ///< numbers of rows given so far
  bool with_slots = false;    ///< a bucket's slot is part of a row's identity
  Event* released = nullptr;  ///< of the plan
};

/// Distinct keys of a batch, told by every device to all: what makes a row that is new on one
/// device new on all of them. Used by the plan stream alone.
class ReplicaKeys {
 public:
  /// For at most `tables` tables at once.
  ReplicaKeys(GPUResource& gpu, std::string owner, std::size_t devices, std::size_t tables);

  /// What all devices have of one table: (N * most), alike everywhere.
  struct Shared {
    TensorRef keys;     ///< the reserved key in gaps
    TensorRef buckets;  ///< any whose slot is the key's; empty without slots
    TensorRef rows;     ///< room for the rows that are found
  };

  /// Once the rows of the device's own keys are known: groups the keys by row (plan.replica) and
  /// shares them. What comes back is good until the next call. One exchange of counts, and one of
  /// keys, for all tables. Waits. Collective.
  const std::vector<Shared>& share(std::span<const ReplicaLookup> tables);
  /// What came of the last share(), in its order.
  const std::vector<Shared>& shared() const { return shared_; }

  /// Whether a device has fewer keys of a table than another.
  bool has_gaps(std::size_t table) const { return has_gaps_.at(table); }

  /// 0, 1, 2, ... up to n - 1. Waits where there are not as many yet.
  TensorRef counting(std::size_t n);
  std::vector<MemoryReportEntry> memory_report() const;

  /// Bytes for batches of so many keys.
  static std::size_t size(const SparseEmbeddingHashParams& params, std::size_t keys);

 private:
  void group_own(const OpContext& context, std::span<const ReplicaLookup> tables);
  void learn_counts(const OpContext& context, std::span<const ReplicaLookup> tables);
  void order_by_first_key(const OpContext& context, std::span<const ReplicaLookup> tables) const;
  void make_lists(std::span<const ReplicaLookup> tables);
  void fill_lists(const OpContext& context, std::span<const ReplicaLookup> tables) const;
  void reserve_gaps(std::size_t n);

  GPUResource& gpu_;
  std::string owner_;
  std::size_t devices_;
  std::shared_ptr<DeviceBuffer2> counts_arena_, staging_, counting_arena_, gaps_arena_,
      lists_arena_;
  TensorBag2 counts_, all_counts_;     ///< (tables) and (N, tables) int64
  Tensor2<std::int64_t> host_counts_;  ///< (N, tables)
  TensorBag2 counting_;                ///< 0, 1, 2, ...: constant
  TensorBag2 gaps32_, gaps64_;         ///< reserved keys: constant
  TensorBag2 lists_;                   ///< uint32
  std::size_t numbers_ = 0, gap_keys_ = 0, list_words_ = 0;
  std::vector<Shared> own_;  ///< this device's lists, (most)
  std::vector<bool> has_gaps_;
  std::vector<Shared> shared_;
};

}  // namespace hugectr
