// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/embedding/exchange/row_hop.hpp"
#include "core/cpp/embedding/exchange/unique_exchange.hpp"

namespace hugectr {

/// What a device does for rows that its node asks of the owners at its place: they come to it once,
/// and it hands them to the devices of its node whose samples use them. On the way back it adds up
/// the gradients of its node. Plans of all tables that travel so, on the plan stream; collective.
class RowRelay {
 public:
  /// For at most `tables` tables at once.
  RowRelay(GPUResource& gpu, std::string owner, const NodeMap& nodes, std::size_t micro_batches,
           std::size_t tables);

  /// One table: what its owners have made of their keys, by node; then by device what this one
  /// hands on.
  struct Table {
    const PlannedLookup* lookup = nullptr;
    TensorRef keys, offsets;  ///< in the order of requests: numbers of keys, where runs begin
    std::vector<std::size_t> sent_keys, came_keys, sent_rows;  ///< plan.unique.relay has came
    // Results.
    TensorRef handed_keys, handed_offsets;
    std::vector<std::size_t> handed_key_counts, given_rows, given_keys;
  };
  void plan(const OpContext& context, std::span<Table> tables);

  std::vector<MemoryReportEntry> memory_report() const;

 private:
  /// Used within one plan, by the plan stream alone.
  struct Desk {
    std::shared_ptr<DeviceBuffer2> arena;
    std::size_t keys = 0, batch_keys = 0;
    TensorBag2 came_keys, offsets, runs, numbers, unused, requests, sorted_keys, requested,
        run_offsets, run_count, scratch, buckets, counting;
  };

  void make_room(const Table& table, Desk& desk);
  void take(const OpContext& context, std::span<Table> tables);
  void request(const OpContext& context, std::span<Table> tables);
  void exchange_counts(const OpContext& context, std::size_t tables);
  void hand_on(Table& table, const Desk& desk, std::size_t number, std::size_t tables);

  GPUResource& gpu_;
  std::string owner_;
  RowHop hop_;
  std::size_t micro_batches_, rank_;
  std::shared_ptr<DeviceBuffer2> counts_arena_, staging_arena_;
  TensorBag2 counts_, all_counts_;  ///< (tables, 2, M * places), (N, tables, 2, M * places)
  Tensor2<std::int64_t> counts_on_host_;
  std::vector<Desk> desks_;  ///< a table each
  std::map<const Route*, std::shared_ptr<const RowRoom>> rooms_;
};

}  // namespace hugectr
