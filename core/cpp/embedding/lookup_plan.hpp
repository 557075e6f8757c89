// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/unique_plan.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// A device's own keys of a batch. With one device nothing is copied: they are the batch itself.
struct FilterKeyStorage {
  TensorRef keys;         ///< (n)
  TensorRef row_offsets;  ///< (B * local slots + 1) uint32
  TensorRef places;       ///< (n) uint32: where each key lies in the batch; empty if not needed
};

/// What forward, backward and update of one batch need to know on one device. Made on the plan
/// stream from keys alone; read on the compute stream.
///
/// The plan also fixes which rows the step may see, so that the table can grow under the next plan
/// while this one trains.
struct LookupPlan {
  enum class State { Empty, Planned, Trained };

  /// Whether the buffers hold n own keys and as many buckets.
  bool fits(std::size_t n, std::size_t bucket_count) const {
    return arena && n <= key_capacity && bucket_count <= bucket_capacity;
  }
  /// New buffers, at least as large as the old ones; no stream may use those any more.
  void allocate(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                std::size_t n, std::size_t bucket_count, bool for_training);
  bool filter_fits(std::size_t n, std::size_t bucket_count) const {
    return filter_arena && n <= filter_key_capacity && bucket_count <= filter_bucket_capacity;
  }
  void allocate_filter(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                       TensorScalarType key_type, std::size_t n, std::size_t bucket_count,
                       bool with_places);

  /// A little more than asked for, so that batches of varying size settle soon.
  static std::size_t with_reserve(std::size_t n) { return n + n / 8 + 64; }
  /// The first n elements of a buffer.
  static TensorRef first(const TensorBag2& bag, std::size_t n) {
    TensorRef ref = bag.ref();
    ref.shape = {n};
    ref.row_stride = 1;
    return ref;
  }

  // Buffers, once a plan slot.
  std::shared_ptr<DeviceBuffer2> arena, filter_arena;
  std::size_t key_capacity = 0, bucket_capacity = 0;
  std::size_t filter_key_capacity = 0, filter_bucket_capacity = 0;
  TensorBag2 own_keys, own_row_offsets, own_places;                         // filter_keys
  TensorBag2 buckets, rows, scale;                                          // every plan
  TensorBag2 sorted_buckets, unique_rows, run_offsets, run_count, scratch;  // training only

  // The present plan.
  State state = State::Empty;
  bool train = false;
  FilterKeyStorage own;
  std::size_t samples = 0;       ///< B
  std::size_t rows_before = 0;   ///< rows of the table when the plan was made
  std::size_t rows_after = 0;    ///< with those it inserted
  TensorRef weights, last_step;  ///< rows 0 .. rows_after - 1
  std::vector<TensorRef> states;
  TensorRef stamps;   ///< empty unless touched rows are noted
  UniquePlan unique;  ///< used: the runs are those of the rows asked for, in place of buckets

  std::unique_ptr<Event> ready;     ///< plan stream: the plan is made
  std::unique_ptr<Event> released;  ///< compute stream: nothing reads it any more
};

}  // namespace hugectr
