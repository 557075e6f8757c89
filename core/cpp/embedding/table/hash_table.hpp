// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/memory/growable_tensor.hpp"
#include "core/cpp/ops/copy_blocks.hpp"
#include "core/cpp/ops/hash_index.hpp"
#include "core/cpp/ops/loops/direct_place.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

/// Key -> row of one device's part of a table. Rows are numbered 0, 1, 2, ...; the table also
/// keeps the key (and slot) of every row, so that the index can be rebuilt and dumped. That is also
/// how the index grows: in place, rebuilt from the rows, so that there never are two. A row that is
/// erased is free: it has the reserved key, and its number goes to a new row before a number that
/// never was. Places that erased rows leave dead (hash_probe.hpp) count as taken; when they are
/// more than an eighth of the index, or it would have to grow for them, it is rebuilt.
///
/// With slots, identity is (slot, key): a key in two slots is two rows. `buckets` of a call are
/// then mapped to slots by `slot_of`. All calls must use one stream (`context.stream`); those that
/// say so wait for it. Not for several host threads at once.
class HCTR_API HashTable {
 public:
  /// key_type: uint32 or int64. `staging`: host memory that copies from the device go to without a
  /// detour; by default any. `direct`: keys that each slot may have, whose index then has a place
  /// for each of them and hashes none; empty: any keys.
  HashTable(std::shared_ptr<MemoryResource> memory, std::string name, TensorScalarType key_type,
            std::size_t max_rows, bool with_slots,
            std::shared_ptr<MemoryResource> staging = nullptr,
            const std::vector<DirectSlot>& direct = {});

  /// Keys that go into the index at once; longer lists go in pieces.
  static constexpr std::size_t kKeysAtOnce = std::size_t{1} << 26;

  /// What a call learned. Rows beyond max_rows() were counted, not stored: take_back() then.
  struct Result {
    std::size_t rows = 0;              ///< rows with keys, or at least were asked for
    std::int64_t first_reserved = -1;  ///< least i with the reserved key at keys[i]
    std::int64_t first_outside = -1;   ///< of a direct index: least i whose key it can not have
  };

  /// Which rows have keys: a moment to go back to.
  struct State {
    std::size_t rows = 0;  ///< numbers given: 0 .. rows - 1
    std::size_t free = 0;  ///< of them without a key
    bool operator==(const State&) const = default;
  };

  /// rows[i] := row of keys[i], new ones for keys that are not there. Grows the index first, so
  /// that it can never fill up; one that is full all the same is a DeviceError, with the table as
  /// before. Waits.
  Result get_insert(const OpContext& context, const TensorRef& keys, const TensorRef& buckets,
                    SlotOfBucket slot_of, const TensorRef& rows);
  /// Rows a lookup may find.
  struct Limit {
    std::size_t rows = 0;     ///< numbers below
    TensorRef births;         ///< (>= rows) uint32, or empty: all of them
    std::uint32_t birth = 0;  ///< of them those with births up to this
  };
  /// rows[i] := row of keys[i], kNoRow where there is none within the limit. Waits.
  Result get_mark(const OpContext& context, const TensorRef& keys, const TensorRef& buckets,
                  SlotOfBucket slot_of, const Limit& limit, const TensorRef& rows);

  // The same two in halves, so that the ops of several tables can run at once and be waited for
  // once: take the op, run it, read_outcome(), wait for the stream, then ask what came of it. No
  // other call in between but take_back(), which forgets what was begun.

  /// Long lists are done here, up to their last piece, and waited for.
  HashGetInsert to_get_insert(const OpContext& context, const TensorRef& keys,
                              const TensorRef& buckets, SlotOfBucket slot_of,
                              const TensorRef& rows);
  HashGet to_get_mark(const OpContext& context, const TensorRef& keys, const TensorRef& buckets,
                      SlotOfBucket slot_of, const Limit& limit, const TensorRef& rows);
  /// The second of them for those who only read, several at once and on any stream, when there is
  /// an index (make_index()): what is found goes to a `report` of the caller's (kReportSize int64,
  /// on the device).
  HashGet to_read(const TensorRef& keys, const TensorRef& buckets, SlotOfBucket slot_of,
                  const Limit& limit, const TensorRef& rows, const TensorRef& report) const;
  /// An index, if only of no rows.
  void make_index(const OpContext& context) {
    if (capacity() == 0) reserve(context, 0);
  }
  /// Whether an insert of n keys that has been begun gives new ones the next numbers, size() on,
  /// and keeps all of them, so that who knows no more can go on.
  bool numbers_in_order(std::size_t n) const {
    return free_ == 0 && n <= kKeysAtOnce && n <= max_rows() - rows_;
  }
  /// (1) int64, on the device: how many rows have keys, behind all that has been begun.
  TensorRef counter() const;
  void read_outcome(const OpContext& context);
  /// The same as an op, so that those of several tables are one. Of a table with `staging` memory,
  /// which its device reaches.
  CopyBlocks outcome_to_host() const;
  Result inserted(const OpContext& context);
  Result marked() const { return outcome_on_host(); }

  /// The same for keys that must all be there; throws InvalidArgument otherwise. Waits.
  void get(const OpContext& context, const TensorRef& keys, const TensorRef& buckets,
           SlotOfBucket slot_of, const TensorRef& rows);
  /// Appends distinct keys that are not in the table as rows size(), size() + 1, ...
  /// slots (n) uint32 or empty. Throws OutOfMemory when they are too many.
  void insert(const OpContext& context, const TensorRef& keys, const TensorRef& slots);
  /// Replaces the content by these distinct keys.
  void set(const OpContext& context, const TensorRef& keys, const TensorRef& slots);
  /// Keys (and slots) of rows 0 .. rows - 1 on the host; Key is the type of the keys. Waits.
  template <class Key>
  void dump(const OpContext& context, std::size_t rows, std::vector<Key>& keys,
            std::vector<std::uint32_t>& slots) const {
    keys.resize(rows);
    slots.resize(with_slots_ ? rows : 0);
    copy_rows_to(context, ScalarTypeOf<Key>::value, rows, keys.data(), slots.data());
  }
  void clear(const OpContext& context);
  /// Rows that got keys since a state never did; none may have been erased since.
  void take_back(const OpContext& context, const State& state);
  /// Rows (n, uint32, on the device; each once, with keys) are free from now on. Waits.
  void erase(const OpContext& context, const TensorRef& rows);

  /// Memory for so many rows and a call with as many keys more; returns whether the index is
  /// another one than before, or too full of dead places, so that it is to be built from the rows.
  bool make_places(std::size_t rows, std::size_t keys);

  State state() const { return {rows_, free_}; }
  /// Rows that were free in a state and have keys since; good until rows are erased.
  TensorRef reused_since(const State& state) const {
    return state.free > free_ ? vector(free_rows_, free_, state.free - free_) : TensorRef{};
  }
  /// Numbers given, and rows with keys.
  std::size_t size() const { return rows_; }
  std::size_t live() const { return rows_ - free_; }
  std::size_t max_rows() const { return row_keys_.max_rows(); }
  /// Places of the index.
  std::size_t capacity() const { return capacity_; }
  std::size_t size_in_bytes() const;
  /// (rows) keys and uint32 slots (empty without slots) of the first rows.
  TensorRef row_keys(std::size_t rows) const { return vector(row_keys_, 0, rows); }
  TensorRef row_slots(std::size_t rows) const {
    return with_slots_ ? vector(row_slots_, 0, rows) : TensorRef{};
  }

 private:
  static TensorRef vector(const GrowableTensor& tensor, std::size_t first, std::size_t rows) {
    TensorRef ref = tensor.ref(first, rows);
    ref.shape = {rows};
    ref.row_stride = 1;
    return ref;
  }
  void copy_rows_to(const OpContext& context, TensorScalarType type, std::size_t rows, void* keys,
                    std::uint32_t* slots) const;
  TensorRef index() const { return is_direct() ? vector(index_, 0, capacity_) : hashed_index(); }
  TensorRef hashed_index() const { return index_.ref(0, capacity_); }
  bool is_direct() const { return direct_places_ > 0; }
  TensorRef direct() const { return is_direct() ? direct_.ref() : TensorRef{}; }
  TensorRef report() const;
  TensorRef dead() const;
  void reserve(const OpContext& context, std::size_t keys);
  void rebuild(const OpContext& context);
  TensorRef free_rows() const { return free_ > 0 ? vector(free_rows_, 0, free_) : TensorRef{}; }
  void take_keys(const OpContext& context, const TensorRef& rows);
  void set_counter(const OpContext& context);
  HashGetInsert piece_to_insert(const OpContext& context, const TensorRef& keys,
                                const TensorRef& buckets, SlotOfBucket slot_of,
                                const TensorRef& rows);
  Result outcome_on_host() const;

  std::shared_ptr<MemoryResource> memory_;
  std::string name_;
  TensorScalarType key_type_;
  bool with_slots_;
  std::size_t rows_ = 0, free_ = 0;
  std::size_t dead_ = 0;  ///< places, at most: of those that came back nothing is known
  GrowableTensor row_keys_, row_slots_, index_;
  GrowableTensor free_rows_;  ///< the last is used first; made by the first erase()
  std::size_t capacity_ = 0;
  std::size_t direct_places_ = 0;  ///< 0: hashed
  TensorBag2 direct_;              ///< (slots, 3) int64
  std::vector<DirectSlot> direct_slots_;
  /// An insert whose outcome has not been asked for.
  struct Begun {
    std::size_t done = 0;                                  ///< keys of its former pieces
    std::size_t keys = 0;                                  ///< of its last one
    std::int64_t first_reserved = -1, first_outside = -1;  ///< of the former ones
  };
  std::optional<Begun> begun_;
  /// Counter of rows, the report of a call, places that an erase() left dead.
  Tensor2<std::int64_t> outcome_, host_outcome_;
};

}  // namespace hugectr
