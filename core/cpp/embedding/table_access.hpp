// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/embedding/table/linked_rows.hpp"
#include "core/cpp/embedding/table/nearest.hpp"
#include "core/cpp/embedding/table/row_bag.hpp"

namespace hugectr {

class ShardedTable;

/// A table's rows in and out, for whoever holds the table: a Session, a TableCollection. What
/// changes rows or tells which there are settles first: nothing is planned any more then.
///
/// Rows that are read out are those of this process's devices. row_processes(), mark() and all that
/// only looks at the table is of this process alone.
class HCTR_API TableAccess {
 public:
  explicit TableAccess(ShardedTable& table) : table_(table) {}
  virtual ~TableAccess();
  TableAccess(const TableAccess&) = default;
  TableAccess& operator=(const TableAccess&) = delete;

  const std::string& name() const;
  std::size_t vec_size() const;
  /// What its vectors are kept in: float32 or bfloat16. As they are read and loaded they are
  /// float32: exactly what is kept, and rounded to nearest even.
  TensorScalarType vector_type() const;
  /// What manifests call where its rows are.
  std::string placement() const;
  /// Whether slots are part of identity.
  bool has_slots() const;
  /// Numbers of each optimizer state of a row: as many as the vector has, or one. Empty in a model
  /// that does not train.
  std::vector<std::size_t> state_widths() const;
  /// Whether rows keep the step they were last brought up to.
  bool has_last_step() const;

  // A dump, whole or in parts, marks of touched rows and owners, as in ShardedTable.
  BufferBag dump(bool with_states);
  RowOrder order(RowMark since);
  void read(const RowOrder& order, std::size_t begin, std::size_t end, const RowValues& values);
  StoredSplit stored(const RowOrder& order);
  void check_undamaged();
  RowMark mark();
  bool knows_since(RowMark since) const;
  bool knows_changes_since(RowMark since) const;
  RowNames gone(RowMark since);
  bool keeps_scores() const;
  /// Whether the last uses in scores are times of the data instead of steps.
  bool keeps_times() const;
  /// Vectors of keys, and the rows nearest to a vector, as in ShardedTable: trained rows of this
  /// process's devices.
  std::vector<std::uint8_t> lookup(const std::vector<std::int64_t>& keys,
                                   const std::vector<std::uint64_t>& slot_ids, float* vectors);
  Neighbours nearest(const std::vector<float>& query, std::size_t k, Similarity similarity,
                     const std::optional<RowName>& but);
  /// The process that owns each row, or kEveryProcess (sharded_table.hpp).
  std::vector<std::uint32_t> row_processes(const std::vector<std::int64_t>& keys,
                                           const std::vector<std::uint64_t>& slot_ids) const;

  void load(const RowView& rows);
  /// Forgets the rows of these keys on the local devices (slot_ids: one a key, where slots are part
  /// of identity); returns how many there were.
  std::size_t erase(const std::vector<std::int64_t>& keys,
                    const std::vector<std::uint64_t>& slot_ids);
  /// Forgets all rows and states.
  void reset();

  virtual TableStats stats() const;

 protected:
  ShardedTable& table() const { return table_; }
  /// Brings the table to where it is what its trained rows are.
  virtual void settle() {}
  /// Updates done, where they are counted.
  virtual std::int64_t step() const { return 0; }

 private:
  ShardedTable& table_;
};

}  // namespace hugectr
