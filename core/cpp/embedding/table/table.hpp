// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/identity.hpp"
#include "core/cpp/embedding/table/hash_table.hpp"
#include "core/cpp/embedding/table/row_bag.hpp"
#include "core/cpp/embedding/table/row_life.hpp"
#include "core/cpp/embedding/table/row_limit.hpp"
#include "core/cpp/embedding/table/row_store.hpp"
#include "core/cpp/embedding/table/table_memory.hpp"
#include "core/cpp/memory/growable_tensor.hpp"
#include "core/cpp/ops/embedding_init.hpp"
#include "core/cpp/ops/loops/row_rounding.hpp"

namespace hugectr {

/// What a table is, on whatever devices its rows lie.
struct TableSpec {
  std::string name;          ///< what messages call it
  std::uint64_t number = 0;  ///< position in the model; with the seed, what new rows are drawn by
  std::uint64_t seed = 0;
  TensorScalarType key_type = TensorScalarType::UInt32;
  Identity identity = Identity::Key;
  std::size_t slot_num = 1;
  std::size_t vec_size = 0;      ///< of the rows on a device
  std::size_t first_column = 0;  ///< of the whole row, where a device has some columns of it
  std::size_t all_columns = 0;   ///< of the whole row; 0: vec_size
  TensorScalarType vector_type = TensorScalarType::Float32;  ///< as in RowParts
  std::vector<double> initial_bounds;                        ///< of new rows: one, or one a slot
  std::vector<DirectSlot> direct;  ///< keys that its slots may have here; empty: any
  bool sinusoidal = false;         ///< new rows are, and have no bounds
  OptParams opt_params;
  TableMemory memory;
  RowLife life;
  std::size_t sharers = 1;  ///< tables of the process, those of each device counted

  bool has_slots() const { return identity == Identity::SlotAndKey; }
  RowParts row_parts() const { return parts_of_row(vec_size, vector_type, opt_params); }
};

/// Rows that have numbers at a moment: what a plan may see, and what is visible to others.
struct RowExtent {
  std::size_t rows = 0;     ///< numbers below
  std::size_t live = 0;     ///< of them with keys
  std::uint32_t birth = 0;  ///< of the last
};

/// One device's rows of a table: index, rows, optimizer states, and which rows were touched when.
/// It finds and holds what it is given and does not know which rows are elsewhere.
///
/// Who touches what: the index only the plan stream; rows that have not trained only the plan
/// stream, the others only the stream that computes. That is why planning may overlap training. An
/// update that sweeps moves all rows below its plan's extent, whoever has their numbers: those that
/// were free begin on the stream that computes (first_content_ahead()).
class Table {
 public:
  Table(TableSpec spec, RowBudget budget, GPUResource& gpu);

  const TableSpec& spec() const { return spec_; }
  GPUResource& gpu() const { return gpu_; }
  const std::string& owner() const { return owner_; }  ///< table and device, for reports

  // On the plan stream.

  /// rows[i] := number of the row of keys[i]; a key that is not there gets a number. Waits. The new
  /// rows are not rows yet: make_room() and begin_rows(), or take_back() to the state before.
  HashTable::Result number(const OpContext& context, const TensorRef& keys,
                           const TensorRef& buckets, SlotOfBucket slot_of, const TensorRef& rows) {
    return index_.get_insert(context, keys, buckets, of_identity(slot_of), rows);
  }
  /// rows[i] := number of the row of keys[i], kNoRow where it is not there or has not trained.
  /// Waits.
  HashTable::Result find(const OpContext& context, const TensorRef& keys, const TensorRef& buckets,
                         SlotOfBucket slot_of, const TensorRef& rows) {
    return index_.get_mark(context, keys, buckets, of_identity(slot_of), limit(), rows);
  }
  // The same two in halves (hash_table.hpp): the op, then outcome_to_host(), and when the stream
  // has been waited for what came of it.
  HashGetInsert to_number(const OpContext& context, const TensorRef& keys, const TensorRef& buckets,
                          SlotOfBucket slot_of, const TensorRef& rows) {
    return index_.to_get_insert(context, keys, buckets, of_identity(slot_of), rows);
  }
  HashGet to_find(const OpContext& context, const TensorRef& keys, const TensorRef& buckets,
                  SlotOfBucket slot_of, const TensorRef& rows) {
    return index_.to_get_mark(context, keys, buckets, of_identity(slot_of), limit(), rows);
  }
  /// find() for those who only read, several at once and on any stream; after make_index().
  HashGet to_read(const TensorRef& keys, const TensorRef& buckets, SlotOfBucket slot_of,
                  const TensorRef& rows, const TensorRef& report) const {
    return index_.to_read(keys, buckets, of_identity(slot_of), limit(), rows, report);
  }
  void make_index(const OpContext& context) { index_.make_index(context); }
  CopyBlocks outcome_to_host() const { return index_.outcome_to_host(); }
  HashTable::Result numbered(const OpContext& context) { return index_.inserted(context); }
  HashTable::Result found() const { return index_.marked(); }
  /// Memory for all rows that have numbers. `asked`: how many there would be. Throws OutOfMemory.
  void make_room(std::size_t asked);
  /// Whether all of so many keys, whose numbering has been begun, could be new: there is memory for
  /// their rows, which then lie at size() and behind in the order of their numbers.
  bool has_room(std::size_t keys) const;
  /// Memory for so many new rows, so that a plan like this one has_room() the next time. Nothing
  /// when there is no memory for it.
  void make_room_for_next(std::size_t keys);
  /// Adds to `ops` what writes the first content of those of `keys` keys that turn out to be new,
  /// for a table that has_room(): as first_content(), before anybody knows which they are.
  void content_of_new(std::size_t keys, const StagedRows& where,
                      std::vector<EmbeddingInit>& ops) const;
  /// Rows numbered since `before` are begun. They are visible once what is returned, or what a
  /// later call returns, has been shown; they have no content yet.
  RowExtent begin_rows() { return ++birth_, RowExtent{size(), index_.live(), birth_}; }
  /// Adds to `ops` what writes the first content of rows numbered since `before`, the last to be
  /// begun, where they lie; without `vectors` only their states.
  void first_content(const HashTable::State& before, const StagedRows& where, bool vectors,
                     std::vector<EmbeddingInit>& ops) const;
  /// The same for a plan, all that may be written while the step before it runs. A step whose
  /// update sweeps moves every row below its extent, those of free numbers too: of them only the
  /// births are written, and what writes the rest is returned, for the stream that updates to run
  /// ahead of the plan's step. None: nothing is left.
  std::optional<EmbeddingInit> first_content_ahead(const HashTable::State& before,
                                                   const StagedRows& where,
                                                   std::vector<EmbeddingInit>& ops) const;
  /// The same in parts, of rows that are visited a few at a time: first states of those that lie at
  /// these places (n, uint32), and the births of all.
  void first_states(const OpContext& context, const TensorRef& places, RowArrays arrays) const;
  void first_births(const OpContext& context, const HashTable::State& before) const;
  /// Rows numbered since `before` never were, nor keys that found no room. Waits for nothing.
  void take_back(const OpContext& context, const HashTable::State& before) {
    index_.take_back(context, before);
  }
  /// By what an update rounds rows of these numbers (uint32, below `rows`); empty where vectors are
  /// not rounded. Good as long as the numbers are.
  RowRounding rounding(const TensorRef& numbers, std::size_t rows) const;
  /// Forgets all rows and states. Waits.
  void reset();
  /// Forgets these rows (n, uint32, on the device; each once, visible). Their numbers go to rows to
  /// come. Not while a training batch is planned. Waits.
  void erase(const TensorRef& rows);
  /// The same of rows that no plan has: plans stay good, but what they inserted before can not be
  /// taken back any more, and extents from before have more rows than there are.
  void erase_unplanned(const TensorRef& rows);
  /// First states for all visible rows, on the compute stream. Waits.
  void reset_states(const OpContext& context);

  HashTable::State state() const { return index_.state(); }
  /// Of rows numbered since a state those whose numbers were free: (n) uint32, or empty.
  TensorRef reused_since(const HashTable::State& state) const { return index_.reused_since(state); }
  /// Rows that have trained: what evaluation and dumps may see.
  RowExtent visible() const;
  /// Nothing where those of a later begin_rows() have been shown.
  void show(const RowExtent& extent);
  /// Of visible rows those that have not trained, by number, are seen by nobody from now on, until
  /// they are revealed. Plans find them. Wait.
  void hide(const std::vector<std::uint32_t>& rows);
  void reveal(const std::vector<std::uint32_t>& rows);
  /// Whether some numbers below visible().rows are not of visible rows: then births tell.
  bool has_gaps() const { return births_.max_rows() > 0; }
  /// (rows) uint32: when rows were begun, as RowExtent::birth counts; empty without gaps.
  TensorRef births(std::size_t rows) const {
    return has_gaps() ? births_.ref(0, rows) : TensorRef{};
  }
  std::size_t size() const { return index_.size(); }
  std::size_t max_rows() const { return index_.max_rows(); }
  bool has_budget() const { return has_budget_; }

  /// Held by who has planned a training batch: while anyone does, the table is not to be changed
  /// from outside.
  std::shared_ptr<const void> pin() const { return pins_; }
  bool is_pinned() const { return pins_.use_count() > 1; }
  /// Changes when rows are forgotten: what was planned before is void.
  std::uint64_t generation() const { return generation_; }

  const HashTable& index() const { return index_; }
  /// Who only looks at a table may have its rows brought to where they can be looked at.
  RowStore& store() const { return *store_; }

  /// From now on there is a stamp a row (uint32): the mark at which it was last touched.
  void keep_stamps();
  /// Stamps of the first rows; empty unless they are kept.
  TensorRef stamps(std::size_t rows) const;

  /// Scores of the first rows, (rows) uint64; empty unless its rows have a life. Those of rows that
  /// were never trained are 0.
  TensorRef scores(std::size_t rows) const {
    return keeps_scores() ? vector(scores_, rows) : TensorRef{};
  }
  bool keeps_scores() const { return scores_.max_rows() > 0; }
  /// (1) int64: rows that were admitted so far; written where scores are.
  TensorRef admitted() const { return admitted_.ref(); }
  /// What makes rows of a plan what they were when they were new. `rows` (n) uint32, kNoRow is
  /// passed over; numbers below `last`. On the plan stream, for who runs it when they have trained.
  EmbeddingInit restart(const TensorRef& rows, const StagedRows& where, std::size_t last) const {
    return content(rows, 0, last, where, true, {});
  }

  /// Its visible rows where they lie. Throws InvalidArgument while there are free numbers among
  /// theirs, or numbers of rows that have not trained.
  TableRows rows() const;
  std::size_t index_places() const { return index_.capacity(); }
  std::size_t size_in_bytes() const;
  void report_memory(std::vector<MemoryReportEntry>& report) const;

 private:
  HashTable::Limit limit() const;
  /// First content of the rows that are named, or else of [first, last).
  EmbeddingInit content(const TensorRef& rows, std::size_t first, std::size_t last,
                        const StagedRows& where, bool vectors, const TensorRef& births) const;
  /// Only the births of the rows that are named, or else of first, first + 1, ...
  EmbeddingInit births_of(const TensorRef& rows, std::size_t first, std::size_t count) const;
  void keep_births();
  void set_births(const std::vector<std::uint32_t>& rows, std::uint32_t birth);
  static TensorRef vector(const GrowableTensor& tensor, std::size_t rows) {
    TensorRef ref = tensor.ref(0, rows);
    ref.shape = {rows};
    ref.row_stride = 1;
    return ref;
  }
  SlotOfBucket of_identity(SlotOfBucket slot_of) const {
    return spec_.has_slots() ? slot_of : SlotOfBucket{};
  }

  const TableSpec spec_;
  GPUResource& gpu_;
  std::shared_ptr<MemoryResource> memory_;
  std::string owner_;
  const bool has_budget_;
  const RowBudget limit_;
  HashTable index_;
  std::unique_ptr<RowStore> store_;
  GrowableTensor stamps_;
  GrowableTensor scores_;  ///< where rows have a life
  Tensor2<std::int64_t> admitted_;
  /// Kept from the first erase() on, and while rows are hidden: else new rows are the last ones.
  GrowableTensor births_;
  bool has_erased_ = false;
  std::uint32_t birth_ = 0;  ///< begin_rows() so far
  mutable std::mutex shown_;
  RowExtent visible_;       ///< guarded by shown_: steps show what plans ask for
  std::size_t hidden_ = 0;  ///< rows among them that are not to be seen; likewise
  std::shared_ptr<const void> pins_ = std::make_shared<int>(0);
  std::uint64_t generation_ = 0;
};

}  // namespace hugectr
