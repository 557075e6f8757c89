// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// Rows of a table outside of it: as they are dumped, loaded, read in parts and looked at.
namespace hugectr {

/// Rows of one table on the host: how tables are saved, loaded and gathered. Sorted by (slot, key)
/// when dumped.
struct BufferBag {
  std::size_t vec_size = 0;
  std::vector<std::int64_t> keys;       ///< n; uint32 keys widened without sign
  std::vector<std::uint64_t> slot_ids;  ///< n (where slots are part of identity), else empty
  std::vector<float> vectors;           ///< n * vec_size
  /// One entry an optimizer state, in the order of its catalogue entry: n * vec_size, or n where
  /// the state is one number a row.
  std::vector<std::vector<float>> states;
  /// Adam LazyGlobal: the step each row was last brought up to; else empty.
  std::vector<std::int64_t> last_step;
  std::vector<std::uint64_t> scores;  ///< n where rows have a life (row_score.hpp), else empty
  std::size_t size() const { return keys.size(); }
};

/// Rows to load that lie on the host, with whoever holds them; as in BufferBag.
struct HCTR_API RowView {
  std::size_t size = 0;  ///< n
  std::size_t vec_size = 0;
  const std::int64_t* keys = nullptr;
  const std::uint64_t* slot_ids = nullptr;  ///< null: none
  const float* vectors = nullptr;
  std::vector<const float*> states;         ///< empty: none, rows begin with their first states
  std::vector<std::size_t> state_widths;    ///< numbers a row; empty: vec_size each
  const std::int64_t* last_step = nullptr;  ///< null: none
  /// null: none; where rows have a life they count as used in the step they are loaded at.
  const std::uint64_t* scores = nullptr;

  RowView() = default;
  /// Throws InvalidArgument when the sizes of the bag's arrays do not go together.
  RowView(const BufferBag& rows);  // NOLINT: a bag is meant to be taken for its rows
};

/// A moment in the life of a table: which rows were touched since. 0: the beginning.
using RowMark = std::uint32_t;

/// Rows of the local devices in the order of a dump, and where they lie. Good until rows are
/// planned, loaded or forgotten; what is read by it are the values at the time of reading.
struct RowOrder {
  std::vector<std::int64_t> keys;       ///< n
  std::vector<std::uint64_t> slot_ids;  ///< n (where slots are part of identity), else empty
  std::vector<std::uint32_t> devices;   ///< n local ids; empty when there is one device
  std::vector<std::uint32_t> rows;      ///< n: row on its device
  std::uint64_t table = 0;              ///< number of the table it is of, in this process
  std::size_t size() const { return keys.size(); }
};

/// Identities of rows.
struct RowNames {
  std::vector<std::int64_t> keys;       ///< n
  std::vector<std::uint64_t> slot_ids;  ///< n (where slots are part of identity), else empty
};

/// Where values of rows are to be written on the host, as in BufferBag; what is null is left out.
struct RowValues {
  float* vectors = nullptr;
  std::vector<float*> states;
  std::int64_t* last_step = nullptr;
  std::uint64_t* scores = nullptr;
};

/// Trained rows of one device where they lie, in the order they were inserted. Growing the table
/// never moves them; their values are written on the compute stream.
struct TableRows {
  TensorRef keys;                 ///< (n) uint32 or int64
  TensorRef slots;                ///< (n) uint32 (where slots are part of identity), else empty
  TensorRef vectors;              ///< (n, d) float32
  std::vector<TensorRef> states;  ///< (n, d) or (n, 1) float32, in the order of BufferBag::states
};

/// What a disk below host memory holds and has done, on all local devices.
struct DiskTierCounts {
  std::uint64_t rows = 0, bytes = 0;   ///< that it holds; bytes with the holes of rewritten rows
  std::uint64_t hits = 0, misses = 0;  ///< rows asked for that host memory had, and had not
  std::uint64_t groups_read = 0, groups_written = 0;  ///< of rows asked for, and written behind
  std::uint64_t bytes_read = 0, bytes_written = 0;    ///< by all, also the sweep
  std::uint64_t segments_swept = 0, rows_swept = 0;

  DiskTierCounts& operator+=(const DiskTierCounts& other) {
    rows += other.rows, bytes += other.bytes;
    hits += other.hits, misses += other.misses;
    groups_read += other.groups_read, groups_written += other.groups_written;
    bytes_read += other.bytes_read, bytes_written += other.bytes_written;
    segments_swept += other.segments_swept, rows_swept += other.rows_swept;
    return *this;
  }
};

/// What rows in several tiers have cost so far, on all local devices: distinct rows of plans, and
/// bytes between the device and what lies below it.
struct TierCounts {
  std::uint64_t hits = 0;           ///< rows of plans that were there
  std::uint64_t misses = 0;         ///< that were not: new ones too
  std::uint64_t bytes_fetched = 0;  ///< to the device
  std::uint64_t bytes_written_back = 0;
  DiskTierCounts disk;  ///< zeros without one

  TierCounts& operator+=(const TierCounts& other) {
    hits += other.hits, misses += other.misses;
    bytes_fetched += other.bytes_fetched, bytes_written_back += other.bytes_written_back;
    disk += other.disk;
    return *this;
  }
};

struct TableStats {
  std::size_t rows = 0;          ///< trained rows, all local devices
  std::size_t max_rows = 0;      ///< budget of all local devices; 0 = none
  std::size_t index_slots = 0;   ///< hash table places
  std::size_t bytes = 0;         ///< rows + states + index, mapped
  std::size_t unique_plans = 0;  ///< training plans so far whose distinct rows travel
  std::size_t host_bytes = 0;    ///< rows + states in host memory below the devices
  TierCounts tiers;              ///< zeros where all rows lie in the devices' memory
  // Of rows with a life, on all local devices, since the table was made.
  std::size_t admitted = 0;  ///< rows that came to train
  std::size_t refused = 0;   ///< candidates that went before they were admitted
  std::size_t evicted = 0;   ///< rows that went to make room, or of age
  std::size_t erased = 0;    ///< rows of any table that were named, to go
};

}  // namespace hugectr
