// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/exchange/replica_plan.hpp"
#include "core/cpp/embedding/exchange/unique_plan.hpp"
#include "core/cpp/embedding/lookup/frequent_keys.hpp"
#include "core/cpp/embedding/lookup/positions.hpp"
#include "core/cpp/embedding/placement/placement.hpp"
#include "core/cpp/embedding/table/table.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

class Exchange;

/// What forward, backward and update of one batch need to know of one table on one device. Made on
/// the plan stream from keys alone; read on the compute stream.
///
/// The plan also fixes which rows the step may see, so that the table can grow under the next plan
/// while this one trains.
struct TablePlan {
  /// Whether the buffers hold n own keys and as many buckets.
  bool fits(std::size_t n, std::size_t bucket_count) const {
    return arena && n <= key_capacity && bucket_count <= bucket_capacity;
  }
  /// New buffers, at least as large as the old ones; no stream may use those any more.
  void allocate(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                std::size_t n, std::size_t bucket_count, bool sorted, bool with_candidates);
  bool filter_fits(std::size_t n, std::size_t bucket_count) const {
    return filter_arena && n <= filter_key_capacity && bucket_count <= filter_bucket_capacity;
  }
  void allocate_filter(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                       TensorScalarType key_type, std::size_t n, std::size_t bucket_count,
                       bool with_places);
  /// A new buffer for the times of so many samples; likewise.
  void allocate_times(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                      std::size_t samples);

  /// A little more than asked for, so that batches of varying size settle soon.
  static std::size_t with_reserve(std::size_t n) { return n + n / 8 + 64; }

  std::size_t key_count() const { return own.keys.size(); }
  std::size_t bucket_count() const { return own.row_offsets.size() - 1; }
  TensorRef key_buckets() const { return buckets.first(key_count()); }
  TensorRef key_rows() const { return rows.first(key_count()); }

  // Buffers, once a plan slot.
  PositionBuffer positions;
  RareBatch rare;  ///< of a hybrid
  std::shared_ptr<DeviceBuffer2> arena, filter_arena;
  std::size_t key_capacity = 0, bucket_capacity = 0;
  std::size_t filter_key_capacity = 0, filter_bucket_capacity = 0;
  FlatBuffer own_keys, own_row_offsets, own_places;                         // filter_keys
  FlatBuffer buckets, rows, scale;                                          // every plan
  FlatBuffer sorted_buckets, unique_rows, run_offsets, run_count, scratch;  // where rows are sorted
  FlatBuffer candidates;  // where rows are admitted
  std::shared_ptr<DeviceBuffer2> times_arena;
  FlatBuffer times;  // where rows have times: (B) uint32, of samples

  // The present plan.
  FilterKeyStorage own;
  std::size_t samples = 0;        ///< B
  std::size_t timed_samples = 0;  ///< whose times are there: B, or 0
  HashTable::State before;        ///< of the table when the plan was made
  RowExtent extent;               ///< rows of the table, with those it inserted
  TensorRef reused;               ///< of these the ones whose numbers were free
  /// What they begin with, where the step before may move them; else null.
  std::unique_ptr<EmbeddingInit> behind_update;
  StagedRows staged;       ///< where the rows of the plan lie
  RowRounding rounding;    ///< of the distinct ones
  TensorRef bucket_scale;  ///< of the buckets of this device; empty: 1
  TensorRef run_scale;     ///< of the buckets of the runs; empty: 1
  TensorRef stamps;        ///< empty unless touched rows are noted
  TensorRef scores;        ///< empty unless rows have a life
  /// Of candidates, rows that the step does not train; null where rows are not admitted.
  std::unique_ptr<EmbeddingInit> restart;
  UniquePlan unique;                   ///< used: the runs are those of the rows asked for
  ReplicaPlan replica;                 ///< used: the runs have a bucket a row, sums of all devices
  const Exchange* exchange = nullptr;  ///< how its vectors travel
  std::uint64_t generation = 0;        ///< of the table: a plan from before it is void
  std::shared_ptr<const void> pin;     ///< while it waits to train
};

/// One batch, planned for all tables of a group on one device.
struct LookupPlan {
  /// Submitted: made, but what came of its keys is not known on the host.
  enum class State { Empty, Begun, Submitted, Planned, Trained };

  bool is_made() const { return state > State::Begun; }
  bool waits_to_train() const {
    return train && (state == State::Submitted || state == State::Planned);
  }

  std::size_t slot = 0;  ///< its place among the plans of the device
  State state = State::Empty;
  bool train = false;
  std::uint64_t number = 0;  ///< later plans have greater ones
  std::vector<TablePlan> tables;
  /// Between begin_plan() and finish_plan(): the batch in buckets, and of it what first parts look
  /// up where there are hybrids.
  std::vector<SparseTensor> batch, rare;
  std::unique_ptr<Event> looked_up;  ///< plan stream: what came of the keys is on the host
  std::unique_ptr<Event> made;       ///< plan stream: what moves may begin
  std::unique_ptr<Event> ready;      ///< plan or move stream: the plan is made, its rows are there
  std::shared_ptr<Event> released;   ///< compute stream: nothing uses it or its rows any more
};

}  // namespace hugectr
