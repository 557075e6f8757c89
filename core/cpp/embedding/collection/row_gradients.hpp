// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/embedding/lookup/own_steps.hpp"
#include "core/cpp/embedding/lookup/row_updates.hpp"
#include "core/cpp/embedding/table/row_staging.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// Gradients of rows that wait for an update, of all tables of a group on one device: those of one
/// batch after the other, each with its distinct rows. A row that several batches have is updated
/// once, by the sum. All work is on the compute stream. For one thread at a time.
class RowGradients {
 public:
  RowGradients(LookupGroup& group, GPUResource& gpu);

  /// Room for so many rows more of a table: their numbers and gradients are to be written there.
  struct Room {
    TensorRef rows;  ///< (n) uint32
    TensorRef sums;  ///< (n, d) float32
  };
  Room append(std::size_t table, std::size_t rows);
  /// Has the memory for append() there.
  void reserve(std::size_t table, std::size_t rows);
  /// Rows of each table that came.
  std::vector<std::size_t> counts() const;
  /// Forgets what came since.
  void cut_back(const std::vector<std::size_t>& counts);
  void clear() { cut_back(std::vector<std::size_t>(parts_.size())); }

  /// Numbers of a table's rows that came, on the host. Waits.
  std::vector<std::uint32_t> rows(std::size_t table) const;
  /// squares[t] := sum of the squares of table t's gradients, a row that came several times counted
  /// by its sum. (tables) float64 on the device.
  void squares(const TensorRef& squares);
  /// Updates the rows that came, and all others where the optimizer moves them. One UpdateScalars
  /// a table; frozen tables stay as they are. clear() follows. Of tables over tiers the rows are
  /// staged first, whatever plans they came by; OutOfMemory leaves all rows as they are.
  /// `number`: of the update, which step_number() is from then on.
  void apply(std::span<const UpdateScalars> scalars, std::int64_t number);
  /// (1) int64 on the device.
  TensorRef step_number() const;
  void set_step_number(std::int64_t number);

  void report_memory(std::vector<MemoryReportEntry>& report) const;

 private:
  struct Part {
    std::shared_ptr<DeviceBuffer2> arena;
    std::size_t capacity = 0, count = 0;
    std::size_t batches = 0;  ///< with rows: those of one are distinct as they came
    bool grouped = false;     ///< whether the runs are those of all that came
    TensorBag2 rows, sums;
    TensorBag2 places;  ///< 0, 1, 2, ...: what the runs are made of, and the runs of one batch
    TensorBag2 sorted_places, unique_rows, run_offsets, scratch;  // lookup_sort.hpp
  };

  void grow(std::size_t table, std::size_t rows);
  /// Brings equal rows together, where several batches came. `number`: also sets step_number(),
  /// which goes over with the counts: a launch takes longer than either.
  void group_rows(std::optional<std::int64_t> number = std::nullopt);
  /// What came, by row; after group_rows().
  RowRuns runs(std::size_t table) const;
  /// Tables that apply() changes.
  bool moves(std::size_t table) const;
  /// A sweep moves rows of plans too that no step has used yet: of these tables they have begun.
  void await_plans(const std::vector<std::size_t>& tables);
  /// Where the rows of these tables lie: of each, until release_rows().
  std::vector<StagedRows> stage_rows(const std::vector<std::size_t>& tables);
  void release_rows(const std::vector<std::size_t>& tables);

  LookupGroup& group_;
  GPUResource& gpu_;
  std::vector<Part> parts_;
  /// For updates of tables over tiers, which stage as plans do; null: there is none.
  std::optional<PlanSlot> slot_;
  RowStaging staging_;
  OwnSteps own_steps_;
  std::unique_ptr<Event> grouped_;   ///< compute stream: which rows an update changes
  std::unique_ptr<Event> planned_;   ///< plan stream: new rows of all plans have their content
  std::unique_ptr<Event> staged_;    ///< plan stream: where they lie
  std::unique_ptr<Event> arrived_;   ///< move stream: they lie there
  std::shared_ptr<Event> released_;  ///< compute stream: the update has changed them
  std::shared_ptr<DeviceBuffer2> counts_arena_;
  Tensor2<std::int64_t> run_counts_;  ///< of each table; behind them step_number()
};

}  // namespace hugectr
