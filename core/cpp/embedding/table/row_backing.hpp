// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/embedding/table/row_store.hpp"
#include "core/cpp/ops/move_rows.hpp"

namespace hugectr {

/// Rows that change places, all on the device: n entries uint32 each. A row is named by its number,
/// or by its home where rows swap theirs.
struct RowMoves {
  TensorRef places;   ///< each once
  TensorRef leaving;  ///< the row whose content lies there and must be kept; or kNoRow
  TensorRef coming;   ///< the row that is to lie there; or kNoRow: none, or a new one
  std::size_t count = 0;
};

/// Where the rows of a CachedPlans live when no plan needs them: the host's memory, or what lies
/// below it. It knows numbers and keeps the last content it was given of each; a row that it never
/// was given has any content. All calls come from one thread at a time.
class RowBacking {
 public:
  virtual ~RowBacking() = default;

  /// Room for rows 0 .. rows - 1. Throws OutOfMemory before anything has changed.
  virtual void grow_to(std::size_t rows) = 0;
  /// Whether any row may be kept at any number's place: the cache may then swap rows' homes, and
  /// all that is called a number here is a home. It gives a row as leaving where another is coming
  /// in the same entry of a move.
  virtual bool swaps() const { return false; }
  /// Before a move of up to `leaving` rows in and of `coming` (count) out, those from `fresh_from`
  /// on without content: all of it that can fail. When it throws nothing has changed.
  virtual void ready(const OpContext&, const TensorRef& /*coming*/, std::size_t /*count*/,
                     std::size_t /*fresh_from*/, std::size_t /*leaving*/) {}
  /// The content of places[i] becomes row leaving[i], and then row coming[i] the content of
  /// places[i]. No number is in both lists but in a swap, none twice in one. In the order of the
  /// context's stream (the plan stream): what a move takes in, a later one gives out again. May
  /// wait for the stream.
  virtual void move(const OpContext& context, const RowArrays& cache, const RowMoves& moves) = 0;

  /// move() as an op of the device, where it is nothing else: those of several tables are run as
  /// one.
  virtual std::optional<MoveRows> move_op(const RowArrays& /*cache*/, const RowMoves& /*moves*/) {
    return std::nullopt;
  }

  /// Whether all rows lie in memory that ops of the device reach, each at the place of its number.
  virtual bool is_whole() const { return true; }
  /// That memory, of rows 0 .. rows - 1. Throws InvalidArgument where there is none.
  virtual RowArrays whole(std::size_t rows) = 0;

  // Of homes that are not whole. Row numbers[i] is at place i of memory that the host reaches;
  // kNoRow is passed over. No row moves for it.

  /// A home that is full keeps nobody from reading.
  virtual void read(std::span<const std::uint32_t> /*numbers*/, const RowArrays& /*to*/) {}
  virtual void write(std::span<const std::uint32_t> /*numbers*/, const RowArrays& /*from*/) {}
  /// As of a RowStore, of what was given here.
  virtual std::optional<StoredRows> stored(const std::vector<std::uint32_t>& /*numbers*/) {
    return std::nullopt;
  }
  virtual void check_undamaged() const {}

  /// These rows have no content any more, and need no room. No move is under way.
  virtual void forget(std::span<const std::uint32_t> /*numbers*/) {}
  /// The same of all rows, whatever went wrong with them.
  virtual void clear() {}

  virtual bool overlaps(const void* begin, std::size_t bytes) const = 0;
  virtual std::size_t host_bytes() const = 0;
  /// Any thread may ask.
  virtual DiskTierCounts disk_counts() const { return {}; }
};

/// All rows in host memory, one place for each; rows may swap theirs. Ops of `device` read and
/// write it over the link, so that no copy of a row is made on the way.
std::unique_ptr<RowBacking> make_host_rows(MemoryResource& host_memory, DeviceId device,
                                           const std::string& owner, const RowParts& parts,
                                           std::size_t max_rows);

}  // namespace hugectr
