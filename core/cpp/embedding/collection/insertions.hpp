// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <utility>
#include <vector>

#include "core/cpp/embedding/lookup/lookup_group.hpp"

namespace hugectr {

/// Rows that training plans have given numbers and that no update has reached: nobody sees them but
/// the plans themselves. An update shows the rows of the plans whose gradients it applied. What a
/// plan inserted that goes without one is taken back in the reverse order of the plans, because a
/// later one may use the rows of an earlier one; or, where an update of a later plan has shown it,
/// hidden at once, and erased when no plan is in use or relieve() finds that none has it. For one
/// thread at a time.
class Insertions {
 public:
  using RowsOfTable = std::function<std::vector<std::uint32_t>(std::size_t table)>;

  /// `before_rows_go`: called before rows are taken back or erased. Who has a plan that is not yet
  /// in use then adds it, for it may have found them. `in_use`: rows of plans that are.
  Insertions(LookupGroup& group, GPUResource& gpu, std::function<void()> before_rows_go,
             RowsOfTable in_use)
      : group_(group),
        gpu_(gpu),
        before_rows_go_(std::move(before_rows_go)),
        in_use_(std::move(in_use)),
        strays_(group.size()) {}

  /// A plan that is in use; later ones have greater numbers.
  void add(std::uint64_t plan, std::vector<PlannedRows> tables);
  /// Whether there are rows of earlier plans that no update may reach.
  bool others_before(std::uint64_t plan) const;
  /// Gradients of the plan wait for an update.
  void await_update(std::uint64_t plan);
  /// Nobody uses the plan any more. What it inserted goes with the next settle(): until then a plan
  /// may come that asks for the same, as the second forward of activation checkpointing does.
  void end(std::uint64_t plan);
  /// The update of all gradients has been submitted. `updated`: rows of a table that its plans
  /// have, on the host; of all, or at least of those that had others_before() them.
  void show(const RowsOfTable& updated);
  /// There will be no update of the gradients so far.
  void withdraw();
  /// Takes back or erases what can be.
  void settle();
  /// The same, and rows that never trained while plans are in use which do not have them. Nothing
  /// while gradients wait for an update. Reads the rows of these plans back: for who lacks room.
  /// Whether there is more room than before.
  bool relieve();

 private:
  struct Entry {
    std::uint64_t plan = 0;
    std::vector<PlannedRows> tables;
    bool used = true, awaits_update = false;
    bool visible = false;  ///< an update has shown its rows, be it that of a later plan

    bool done() const { return !used && !awaits_update; }
  };
  /// Adds the rows that a plan inserted, by table.
  void list_rows(const Entry& entry, std::vector<std::set<std::uint32_t>>& rows) const;
  /// Of rows that an update has shown and perhaps not reached, those that it has not.
  void note_strays(std::vector<std::set<std::uint32_t>> shown, const RowsOfTable& updated);
  bool has_strays() const;
  bool rows_go() const;
  void take_back();
  void erase_strays();
  /// What plans have inserted can not be taken back, for other rows are about to go: it is shown,
  /// and hidden, as that of plans without an update is.
  void hide_planned();
  std::size_t rows_there() const;

  LookupGroup& group_;
  GPUResource& gpu_;
  std::function<void()> before_rows_go_;
  RowsOfTable in_use_;
  std::size_t stray_plans_ = 0;  ///< since rows were erased
  std::list<Entry> entries_;     ///< in the order of the plans
  /// By table: rows that are hidden, for they never trained.
  std::vector<std::set<std::uint32_t>> strays_;
};

}  // namespace hugectr
