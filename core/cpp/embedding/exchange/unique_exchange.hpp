// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/embedding/exchange/exchange.hpp"
#include "core/cpp/embedding/exchange/row_hop.hpp"
#include "core/cpp/embedding/exchange/row_room.hpp"

namespace hugectr {

class RequestCounts;
class RowRelay;
class VectorCalls;

/// One table's part of a training batch that is being planned.
struct PlannedLookup {
  const Route* route = nullptr;
  TablePlan* plan = nullptr;
  const SparseTensor* batch = nullptr;
  TensorRef bucket_offsets;   ///< of whole buckets, where the batch lacks keys that count in a mean
  Event* released = nullptr;  ///< of the plan
};

/// Each distinct row of a device's samples travels to it once, and its gradient back once, summed
/// over those samples. On keys of a power law that is about a sixth of the bytes that pooled
/// vectors of one-hot slots take.
///
/// plan() counts what either exchange would move and chooses table by table, the same on all
/// devices, from nothing but the keys of the batch: a run that is resumed chooses the same again.
/// A table that is told to (ExchangeType::Unique) travels so with any number of rows, or throws.
///
/// Where collectives go by node (Communicator::nodes()), rows do too: once to each node, where
/// RowRelay hands them on.
///
/// Rows of a device that its own samples ask for do not travel. Where they are many they are
/// brought into their place, and their gradients summed, while the others are on their way:
///
///   forward    gather what others ask for | on its way              | pool all
///                                         | gather the device's own |
///   backward   sum what is others'        | on its way              | update
///                                         | sum what is its own     |
class UniqueExchange final : public Exchange {
 public:
  /// For at most `tables` tables at once on several devices, whose training batches travel in so
  /// many micro-batches.
  UniqueExchange(GPUResource& gpu, std::string owner, std::size_t devices,
                 std::size_t micro_batches, std::size_t tables);
  ~UniqueExchange() override;

  /// On the plan stream, once the plans' rows are known: of the tables whose rows are to travel
  /// fills plan.unique (used is then true) and the plan's runs, and waits for them. One exchange of
  /// counts for all tables. Collective.
  void plan(std::span<const PlannedLookup> tables);
  void forward(const OpContext& context, std::span<const Shipment> tables, const Rounding& rounding,
               MicroBatch part) const override;
  /// A vector for each row that was asked for (asked_rows, 1, d), which are the buckets of the
  /// plan's runs. float16 travels as float32, unless a table's `wire` says what as.
  void backward(const OpContext& context, std::span<Shipment> tables, const Rounding& rounding,
                MicroBatch part) const override;

  std::vector<MemoryReportEntry> memory_report() const;

 private:
  struct Chosen;

  void request(const OpContext& context, std::span<const PlannedLookup> tables);
  void exchange_counts(const OpContext& context, std::size_t tables);
  bool worth_it(const RequestCounts& counts, const PlannedLookup& table) const;
  void refuse_if_asked_for(const PlannedLookup& table) const;
  void make_room(const PlannedLookup& table);
  void relay(const OpContext& context, std::span<Chosen> chosen);
  void place(const OpContext& context, std::span<const Chosen> chosen);
  void sort_runs(const OpContext& context, std::span<const Chosen> chosen) const;
  bool stays_apart(const Shipment& table, TensorScalarType type, const RowsOfPart& rows) const;
  /// Has the calls on their way, and what stays beside them.
  template <class Op>
  void travel(const OpContext& context, VectorCalls& calls, std::vector<Op> staying) const;
  void reserve_request(std::size_t n);
  void reserve_placing(std::size_t n);

  GPUResource& gpu_;
  std::string owner_;
  std::size_t devices_, micro_batches_, rank_;
  RowHop hop_;                       ///< from owners on
  std::size_t askers_;               ///< of all micro-batches
  std::unique_ptr<RowRelay> relay_;  ///< null: rows go to devices directly
  /// Of a table's rows that stay, from which on they do so apart: of fewer a launch more takes as
  /// long as they do. 8 MiB, or HUGECTR_APART_BYTES.
  std::size_t apart_bytes_;
  /// Between a step's stream and what stays; null on a CPU, which does both in turn.
  std::unique_ptr<Event> before_staying_, stayed_;

  // Used within one plan, by the plan stream alone; keys of one table after those of another.
  std::shared_ptr<DeviceBuffer2> counts_arena_, staging_arena_, request_arena_, placing_arena_;
  TensorBag2 counts_, all_counts_;  ///< (tables, 2, M * N), (N, tables, 2, M * N)
  Tensor2<std::int64_t> counts_on_host_;
  std::size_t request_keys_ = 0, placing_keys_ = 0;
  TensorBag2 requests_;  ///< owner
  /// Asker: keys in the order of the rows that come, where the owners' runs begin, the bucket of
  /// each key.
  TensorBag2 keys_, offsets_, buckets_;
  /// The largest there was of each table with more rows in a batch than buckets. Steps use it in
  /// turn; plans keep the one they were made with.
  std::map<const Route*, std::shared_ptr<const RowRoom>> rooms_;
};

}  // namespace hugectr
