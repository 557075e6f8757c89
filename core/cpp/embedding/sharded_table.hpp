// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/embedding_params.hpp"
#include "core/cpp/embedding/life/gone_rows.hpp"
#include "core/cpp/embedding/life/row_choice.hpp"
#include "core/cpp/embedding/placement/placement.hpp"
#include "core/cpp/embedding/table/linked_rows.hpp"
#include "core/cpp/embedding/table/nearest.hpp"
#include "core/cpp/embedding/table/row_order.hpp"
#include "core/cpp/embedding/table_spec.hpp"
#include "core/cpp/optimizers/trained_steps.hpp"

namespace hugectr {

class RowLoad;

/// Instead of a process: all have the row.
inline constexpr std::uint32_t kEveryProcess = 0xFFFFFFFF;

/// One embedding's table as a whole: its parts on the local devices and the placement that says
/// which rows are where. A row that several devices have is read out once, by the process of the
/// first: as a whole, where they have columns of it. Rows come in and go out here; steps go through
/// the LookupGroup. Called by one thread while nothing else runs, and not while a training batch is
/// planned where it changes rows.
class HCTR_API ShardedTable {
 public:
  ShardedTable(const SparseEmbeddingHashParams& params, std::shared_ptr<ResourceManager> resources);

  const SparseEmbeddingHashParams& params() const { return params_; }
  const Placement& placement() const { return *placement_; }
  Table& part(std::size_t local_id) { return *by_device_.at(local_id); }
  /// Of a hybrid the frequent rows, which have tables of their own; else null.
  const Placement* frequent_placement() const { return frequent_placement_.get(); }
  Table& frequent_part(std::size_t local_id) {
    return *by_device_.at(resources_->get_local_gpu_count() + local_id);
  }
  /// Slot, as part of identity, of a device's bucket.
  SlotOfBucket slot_of_bucket(std::size_t rank) const {
    return params_.pooled() ? placement_->slot_of_bucket(rank) : SlotOfBucket{1, 1, 0};
  }

  void freeze() { trained_.freeze(); }
  void unfreeze() { trained_.unfreeze(); }
  bool is_trainable() const { return trained_.is_trainable(); }
  TrainedSteps& trained_steps() { return trained_; }
  const TrainedSteps& trained_steps() const { return trained_; }

  /// Rows of the local devices, trained ones only, sorted by (slot, key).
  BufferBag dump(bool with_states);
  /// The same rows in parts: their order (only those touched since a mark), then values of rows
  /// [begin, end) of it, through a bounded piece of host memory.
  RowOrder order(RowMark since);
  void read(const RowOrder& order, std::size_t begin, std::size_t end, const RowValues& values);
  /// The same rows, those apart whose content lies on disks (linked_rows.hpp): none where devices
  /// have columns of rows.
  StoredSplit stored(RowOrder order);
  /// Throws DataError when rows on a disk of a local device are known to be damaged.
  void check_undamaged() const;
  /// The vectors of these keys (slot_ids: one a key, where slots are part of identity) that the
  /// local devices have, into vectors (n * vec_size); the others stay as they are. Returns 1 for
  /// each that was there, else 0. Throws for a key or slot the table can not have.
  std::vector<std::uint8_t> lookup(const std::vector<std::int64_t>& keys,
                                   const std::vector<std::uint64_t>& slot_ids, float* vectors);
  /// Rows of the local devices that are nearest to a vector (nearest_rows()).
  Neighbours nearest(std::span<const float> query, std::size_t k, Similarity similarity,
                     const std::optional<RowName>& but);
  /// Whether slots are part of identity; numbers a row of each optimizer state; whether rows keep
  /// the step they were last brought up to.
  bool has_slots() const { return spec_.has_slots(); }
  /// Whether its devices have columns of rows instead of whole ones.
  bool has_columns() const {
    return by_device_.front()->spec().vec_size != params_.embedding_vec_size;
  }
  std::vector<std::size_t> state_widths() const;
  bool has_last_step() const;
  /// A mark at this moment. The first call makes the table note from now on which rows training
  /// and load() touch: 4 bytes a row and a small kernel a step, which nobody else pays for. Not
  /// while a training batch is planned.
  RowMark mark();
  /// Whether order(since) tells all that changed: not when rows were forgotten in between.
  bool knows_since(RowMark since) const { return since > erased_ && knows_changes_since(since); }
  /// Whether order(since) and gone(since) together do: not when all rows were forgotten in between,
  /// or so many that they were not noted.
  bool knows_changes_since(RowMark since) const { return since > forgotten_ && since <= now_; }
  /// Rows of the local devices that were there at some time since the mark and are not now.
  RowNames gone(RowMark since);
  /// Whether rows have scores (row_score.hpp).
  bool keeps_scores() const { return spec_.life.keeps_scores(); }
  /// The process that owns each row, or kEveryProcess.
  std::vector<std::uint32_t> row_processes(const std::vector<std::int64_t>& keys,
                                           const std::vector<std::uint64_t>& slot_ids) const;
  /// Adds or overwrites rows: each goes to its owners; rows owned by other processes are passed
  /// over. Throws OutOfMemory before anything has changed when a budget is too small. Rows without
  /// scores count as used in `step`.
  void load(const RowView& rows, std::int64_t step = 0);
  /// Forgets the rows of these keys on the local devices; keys that are not there are passed over.
  /// Returns how many rows went. A key that comes back begins anew. Marks know what went.
  std::size_t erase(const std::vector<std::int64_t>& keys,
                    const std::vector<std::uint64_t>& slot_ids);
  /// Forgets what its life says is to go behind a step: candidates that nobody asks for, rows of
  /// age, and the surplus over max_rows. The same rows on any devices. Collective.
  void evict(std::int64_t step);
  /// Forgets all rows and states.
  void reset();
  /// Zeroes the states, keeps the rows.
  void reset_optimizer();
  /// The rows of one local device without a copy. Not while a plan is being made.
  TableRows rows(std::size_t local_id) const { return by_device_.at(local_id)->rows(); }
  TableStats stats() const;
  /// Throws the InvalidArgument for a batch in which this slot of this sample has the reserved key.
  [[noreturn]] void refuse_reserved(std::size_t sample, std::size_t slot) const;
  /// A slot's key that slot_size_array does not allow.
  [[noreturn]] void refuse_outside(std::int64_t key, std::size_t sample, std::size_t slot) const;
  /// One more training plan whose distinct rows travel.
  void count_unique_plan() { ++unique_plans_; }

  /// On the stream that updates: notes which rows a step has touched, of `rows` (count of them)
  /// those from `first` on; all of the table's when `all`. Nothing unless there is a mark.
  void note_touched(const OpContext& context, const TensorRef& stamps, const TensorRef& rows,
                    const TensorRef& count, std::size_t first, bool all);

 private:
  void add_part(const Placement& placement, GPUResource& gpu);
  bool is_frequent(std::int64_t key) const;
  /// Whether rows of a part are read out.
  bool reads_out(std::size_t part) const;
  /// Throws for a key or slot the table can not have.
  DeviceRange owners(std::int64_t key, std::size_t slot) const;
  /// f(place in by_device_) for each of the owners that this process has.
  template <class F>
  void for_each_local_owner(std::int64_t key, std::size_t slot, const F& f) const;
  std::vector<RowLoad> split(const RowView& rows);
  /// Replaces what lies in the table itself by copies, which it returns: they are overwritten.
  std::vector<std::vector<float>> copy_own_rows(RowView& rows) const;
  void require_no_plan(const char* what) const;
  /// Erases rows of a part; `noted`: and tells marks which they were.
  void forget(Table& part, const TensorRef& rows, bool noted);
  std::size_t forget(const ChosenRows& chosen);
  /// Keys by the local device that owns them, with their places among all.
  struct Share {
    std::vector<std::int64_t> keys;
    std::vector<std::uint32_t> slots;  ///< where slots are part of identity
    std::vector<std::size_t> places;
  };
  std::vector<Share> shares(const std::vector<std::int64_t>& keys,
                            const std::vector<std::uint64_t>& slot_ids) const;

  const std::uint64_t number_;  ///< of this table among all of the process, from 1
  const SparseEmbeddingHashParams params_;
  std::shared_ptr<ResourceManager> resources_;
  std::unique_ptr<Placement> placement_;
  TableSpec spec_;
  std::unique_ptr<Placement> frequent_placement_;
  std::vector<std::int64_t> frequent_;  ///< of a hybrid on several devices, ascending
  std::vector<Table*> by_device_;  ///< local: of parts_ and others_; then those of frequent rows
  TableParts parts_;               ///< whose rows are read out
  TableParts others_;              ///< that have copies of them, or other columns
  TrainedSteps trained_;
  RowMark now_ = 0;        ///< the last mark; 0: rows are not noted
  RowMark erased_ = 0;     ///< the last mark before rows were erased
  RowMark forgotten_ = 0;  ///< the last mark before what went was not noted
  GoneRows gone_;
  std::size_t refused_ = 0, evicted_ = 0, gone_by_name_ = 0;
  std::atomic<RowMark> all_touched_{0};  ///< the last mark before an update touched every row
  std::atomic<std::size_t> unique_plans_{0};
};

}  // namespace hugectr
