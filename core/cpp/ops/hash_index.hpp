// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/device/op.hpp"

/// The operations on the index of a hash table (layout: hash_probe.hpp). All of them:
///   index   (capacity, 2) uint64: places; capacity a power of two, 64 to 2^33. CUDA wants it to
///           start at a multiple of 16 bytes.
///   report  (kReportSize) int64: see HashReport; an op writes the elements its text names.
/// Rows are numbered 0, 1, 2, ... in the order of insertion, which depends on timing: no result may
/// depend on row numbers; they are below kDeadRow. A row that is erased has the reserved key and is
/// free: its number is given to a new row before a number that never was. The caller keeps the
/// index from filling up, of which dead places are a part. A key that finds no place all the same
/// is counted in report[kReportedLost] and has no row; the rest of the call is done as ever, but it
/// takes long: every place was looked at.
///
/// With `direct`, (slots, 3) int64 (DirectSlot, direct_place.hpp), there is nothing to hash: index
/// is (places) uint32, a place for every key that a slot may have, and slots count. The least key
/// without a place is told in report[kReportedOutside] of HashGet and HashGetInsert, and has no
/// row.
namespace hugectr {

/// All places become free. Overwrites. Deterministic.
struct HCTR_API HashClear {
  static constexpr const char* kName = "hash_clear";
  TensorRef index;

  void visit(OpVisitor& v) { v.tensor("index", Access::Out, index); }
  void check() const;
};

/// rows[i] := row of (slot, keys[i]), or kNoRow when the row is `row_limit` or later or there is
/// none; kNoRow too when births are given and births[row] > birth_limit. keys (n) uint32 or int64;
/// buckets (n) uint32, needed when slot_num > 0; rows (n) uint32; births (>= row_limit) uint32.
/// report[kReportedReserved] := least i with keys[i] = kEmptyKey, else -1. Deterministic.
struct HCTR_API HashGet {
  static constexpr const char* kName = "hash_get";
  static constexpr const char* kSeveralName = "several_hash_get";
  TensorRef keys, buckets, index, direct, births, rows, report;
  std::int64_t row_limit = 0, birth_limit = 0;
  /// Slot of a key = slot_first + buckets[i] % slot_num * slot_stride; slot_num 0: no slots.
  std::int64_t slot_num = 0, slot_stride = 1, slot_first = 0;

  void visit(OpVisitor& v) {
    v.tensor("keys", Access::In, keys);
    v.optional("buckets", Access::In, buckets);
    v.tensor("index", Access::In, index);
    v.optional("direct", Access::In, direct);
    v.optional("births", Access::In, births);
    v.tensor("rows", Access::Out, rows);
    v.tensor("report", Access::InOut, report);
    v.attribute("row_limit", row_limit);
    v.attribute("birth_limit", birth_limit);
    v.attribute("slot_num", slot_num);
    v.attribute("slot_stride", slot_stride);
    v.attribute("slot_first", slot_first);
  }
  void check() const;
};

/// The same, but a key that is not there gets the next row: rows[i] = counter++, row_keys[row] =
/// key, row_slots[row] = slot. Concurrent, also with other calls on this index: whoever swaps the
/// key into a free place, or a dead place of it to unpublished, takes the row and publishes it;
/// others with the same key wait for it.
/// counter (1) int64. row_keys (limit), row_slots (limit) uint32 if slots count. A row beyond the
/// limit is not written and reads kNoRow; the counter still counts it, so that the caller sees
/// counter > limit and rebuilds the index. report[kReportedLost] := keys without a place.
///
/// With free rows the counter counts rows that are not free, and starts at `numbered` - F:
///   row = counter < numbered ? free_rows[numbered - 1 - counter] : counter
/// free_rows (F) uint32 or empty; `numbered`: rows that have numbers, needed with free rows.
struct HCTR_API HashGetInsert {
  static constexpr const char* kName = "hash_get_insert";
  static constexpr const char* kSeveralName = "several_hash_get_insert";
  TensorRef keys, buckets, index, direct, counter, free_rows, row_keys, row_slots, rows, report;
  std::int64_t numbered = 0;
  std::int64_t slot_num = 0, slot_stride = 1, slot_first = 0;

  void visit(OpVisitor& v) {
    v.tensor("keys", Access::In, keys);
    v.optional("buckets", Access::In, buckets);
    v.tensor("index", Access::InOut, index);
    v.optional("direct", Access::In, direct);
    v.tensor("counter", Access::InOut, counter);
    v.optional("free_rows", Access::In, free_rows);
    v.tensor("row_keys", Access::InOut, row_keys);
    v.optional("row_slots", Access::InOut, row_slots);
    v.tensor("rows", Access::Out, rows);
    v.tensor("report", Access::InOut, report);
    v.attribute("numbered", numbered);
    v.attribute("slot_num", slot_num);
    v.attribute("slot_stride", slot_stride);
    v.attribute("slot_first", slot_first);
  }
  void check() const;
};

/// Puts rows first .. first + n - 1 into an index without their keys, also dead: row_keys (n)
/// distinct but for the reserved key, whose rows are passed over; row_slots (n) uint32 or empty.
/// How the index is rebuilt when it grows and when rows are taken back. report[kReportedLost] :=
/// keys without a place.
struct HCTR_API HashInsert {
  static constexpr const char* kName = "hash_insert";
  TensorRef row_keys, row_slots, index, direct, report;
  std::int64_t first = 0;

  void visit(OpVisitor& v) {
    v.tensor("row_keys", Access::In, row_keys);
    v.optional("row_slots", Access::In, row_slots);
    v.tensor("index", Access::InOut, index);
    v.optional("direct", Access::In, direct);
    v.tensor("report", Access::InOut, report);
    v.attribute("first", first);
  }
  void check() const;
};

/// row_keys[rows[i]] = the reserved key, and their places of the index free or dead. rows (n)
/// uint32 below R, each once; row_keys (R) uint32 or int64; row_slots (R) uint32 if slots count;
/// dead (1) int64, to which places that became dead are added. Without an index only the keys are
/// written, and the rows are free once an index has been built from them. Deterministic.
struct HCTR_API HashErase {
  static constexpr const char* kName = "hash_erase";
  TensorRef rows, row_keys, row_slots, index, dead;

  void visit(OpVisitor& v) {
    v.tensor("rows", Access::In, rows);
    v.tensor("row_keys", Access::InOut, row_keys);
    v.optional("row_slots", Access::In, row_slots);
    v.optional("index", Access::InOut, index);
    v.optional("dead", Access::InOut, dead);
  }
  void check() const;
};

}  // namespace hugectr
