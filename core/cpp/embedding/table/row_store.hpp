// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cpp/embedding/storage/stored_rows.hpp"
#include "core/cpp/embedding/table/row_arrays.hpp"
#include "core/cpp/embedding/table/row_bag.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {

struct StagingOps;

/// The rows of a plan, by number (uint32; kNoRow is passed over).
struct PlanRows {
  TensorRef of_keys;   ///< (n) as kernels that gather index by them
  TensorRef distinct;  ///< (>= count) each once, ascending: what an update goes over
  TensorRef count;     ///< (1) int64: of them
  bool train = false;  ///< whether the plan may change them
  /// Numbers from here on are of rows that have no content yet: the plan writes it once they are
  /// staged. (Numbers used again have old content, which means nothing.)
  std::size_t fresh_from = 0;
};

/// Where they lie: the same arrays, by place.
struct StagedRows {
  RowArrays arrays;
  TensorRef of_keys, distinct;
  /// (R) uint32: of a row that is staged its place + 1, by number; empty: a number is a place.
  TensorRef places;
};

/// Rows outside of plans, as who looks at a table as a whole gets them.
struct VisitedRows {
  RowArrays arrays;
  /// Where row numbers[i] of the visit lies in them; null: at the place of its number.
  const std::vector<std::uint32_t>* places = nullptr;
};
enum class RowUse { Read, Write };
using RowVisit = std::function<void(const VisitedRows&)>;
/// Rows first .. last - 1, which lie at places 0 .. last - first - 1.
using RowScan = std::function<void(const RowArrays&, std::size_t first, std::size_t last)>;

/// Where the rows of a table lie on one device. A row's number is its name for life and what the
/// index knows; its place is where it lies while a plan needs it, and the store's own business.
///
/// A plan is known one batch ahead: that is when its rows are staged, so that no step ever finds
/// one missing. Who looks at many rows that no plan names (dumps, checkpoints, loads, searches)
/// visits or scans them where they live: that moves no row in or out of the places of plans, and
/// steps compute the same with or without it.
class RowStore {
 public:
  virtual ~RowStore() = default;

  /// Room for rows 0 .. rows - 1, the new ones without content. Throws OutOfMemory.
  virtual void grow_to(std::size_t rows) = 0;
  /// Rows that there is room for; 0 where they have no places of their own.
  virtual std::size_t room() const { return 0; }
  /// Whether staging needs the distinct rows of plans that do not update them too, which costs a
  /// sort.
  virtual bool wants_distinct_rows() const = 0;

  // On the plan stream, by RowStaging. A plan's rows are resident from stage() until release() of
  // the same `plan` (of which few are alive at once) or its next staging. In parts, each of which
  // appends its ops to those of the other tables of the plan, so that they are run together and the
  // host waits once.

  /// Appends what finds missing rows. Returns whether the stream must be waited for before take().
  virtual bool prepare(const OpContext& context, std::size_t plan, const PlanRows& numbers,
                       StagingOps& ops) = 0;
  /// Appends what gives them places and what brings them. Throws OutOfMemory when there are not
  /// places enough; the plan's rows are not staged then, and those of other plans as before.
  virtual void take(const OpContext& /*context*/, std::size_t /*plan*/, const PlanRows& /*numbers*/,
                    StagingOps& /*ops*/) {}
  /// Whether the device's move stream brings them: what writes the places of a plan first, or says
  /// that its rows are there, then comes on that stream, behind what the plan stream holds.
  virtual bool moves() const { return false; }
  /// The rows are on their way, if any had to come: the event says when its lists are free again.
  virtual void moving(std::size_t /*plan*/, const std::shared_ptr<Event>& /*moved*/) {}
  /// Appends what finds the places of rows, which are below `rows`.
  virtual StagedRows stage(std::size_t plan, std::size_t rows, const PlanRows& numbers,
                           StagingOps& ops) = 0;
  /// Nothing uses the plan's rows once the event has come, which has been recorded behind who used
  /// them last; null: nothing does. Once is enough, more often does nothing.
  virtual void release(std::size_t plan, const std::shared_ptr<Event>& released) = 0;

  // Of visible rows, while no plan is being made. Writers write every part of a row they mean to
  // change; when they return, rows that are staged have changed too.

  /// f once, with these rows (below `rows`; at most most_visited() of them; kNoRow is passed over).
  /// f returns when all is done that it asked of the context's stream.
  virtual void visit(const OpContext& context, std::size_t rows,
                     const std::vector<std::uint32_t>& numbers, RowUse use, const RowVisit& f) = 0;
  virtual std::size_t most_visited() const { return SIZE_MAX; }
  /// Whether what is visited and scanned is the host's memory: copies to and from the host then
  /// need no staging.
  virtual bool visited_on_host() const = 0;
  /// f of rows 0 .. rows - 1 in order, in as few pieces as the store's memory allows.
  virtual void scan(const OpContext& context, std::size_t rows, RowUse use, const RowScan& f) = 0;
  /// All rows at the place of their number, in memory that ops of the device reach, as the last
  /// steps that were waited for left them: for any number of threads that only read. Throws
  /// InvalidArgument where they are never all in memory.
  virtual RowArrays whole(std::size_t rows) = 0;
  /// Whether whole() can be asked for.
  virtual bool is_whole() const { return true; }
  /// Where rows lie on a disk, by number; nothing where there is none below.
  virtual std::optional<StoredRows> stored(const std::vector<std::uint32_t>& /*numbers*/) {
    return std::nullopt;
  }
  /// Throws DataError when rows on a disk are known to be damaged, so that nothing may be saved.
  virtual void check_undamaged() const {}
  /// These rows (n, uint32, on the device; each once) have no content any more: their places are
  /// free, and nobody keeps them. No plan holds them. Waits.
  virtual void forget(const OpContext& /*context*/, const TensorRef& /*rows*/) {}
  /// The same of all rows, whatever went wrong with them. Waits.
  virtual void clear(const OpContext& /*context*/) {}
  /// Whether `whole` is where steps write: what may be handed out as a view that stays.
  virtual bool in_place() const = 0;

  /// Whether [begin, begin + bytes) and the rows have memory in common.
  virtual bool overlaps(const void* begin, std::size_t bytes) const = 0;
  /// Memory of the device in bytes, of the vectors and of all; and of the host.
  virtual std::size_t vector_bytes() const = 0;
  virtual std::size_t size_in_bytes() const = 0;
  virtual std::size_t host_bytes() const { return 0; }
  /// Memory of the device beside that, for staging plans.
  virtual std::size_t staging_bytes() const { return 0; }
  virtual TierCounts counts() const { return {}; }
};

/// All rows lie in memory of the device at the place of their number, which grows without moving
/// them: nothing is staged and nothing written back. `memory` may be the host's, which the ops of
/// `device` then reach over the link.
std::unique_ptr<RowStore> make_mapped_rows(MemoryResource& memory, DeviceId device,
                                           const std::string& owner, const RowParts& parts,
                                           std::size_t max_rows);

}  // namespace hugectr
