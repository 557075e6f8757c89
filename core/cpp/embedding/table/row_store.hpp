// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/memory/memory_resource.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {

/// What a row is made of besides its key: these parts go together wherever they lie.
struct RowParts {
  std::size_t vec_size = 0;         ///< float32
  std::vector<std::size_t> states;  ///< float32 numbers of each: vec_size or 1
  bool last_step = false;           ///< int64
};

RowParts parts_of_row(std::size_t vec_size, const OptParams& params);

/// Memory of a device that holds rows: the row at place p is row p of each.
struct RowArrays {
  TensorRef vectors;              ///< (P, d) float32
  std::vector<TensorRef> states;  ///< (P, d) or (P, 1) float32
  TensorRef last_step;            ///< (P) int64, or empty
};

/// The rows of a plan, by number (uint32; kNoRow is passed over).
struct PlanRows {
  TensorRef of_keys;   ///< (n) as kernels that gather index by them
  TensorRef distinct;  ///< (>= count) each once, ascending: what an update goes over
  TensorRef count;     ///< (1) int64: of them
};

/// Where they lie: the same arrays, by place.
struct StagedRows {
  RowArrays arrays;
  TensorRef of_keys, distinct;
};

/// Where the rows of a table lie on one device. A row's number is its name for life and what the
/// index knows; its place is where it lies while a plan needs it, and the store's own business.
///
/// A plan is known one batch ahead: that is when its rows are staged, so that no step ever finds
/// one missing.
class RowStore {
 public:
  virtual ~RowStore() = default;

  /// Room for rows 0 .. rows - 1, the new ones without content. Throws OutOfMemory.
  virtual void grow_to(std::size_t rows) = 0;
  /// Whether stage() needs the distinct rows of plans that do not update them too, which costs a
  /// sort.
  virtual bool wants_distinct_rows() const = 0;
  /// On the plan stream: makes the rows of a plan resident until release() of the same `plan` (of
  /// which few are alive at once) or its next stage(). Row numbers are below `rows`.
  virtual StagedRows stage(const OpContext& context, std::size_t plan, std::size_t rows,
                           const PlanRows& numbers) = 0;
  /// On the stream that used the plan's rows last.
  virtual void release(const OpContext& context, std::size_t plan) = 0;
  /// Rows 0 .. rows - 1, all of them at the place of their number: for what looks at a table as a
  /// whole, while no plan is being made.
  virtual RowArrays whole(std::size_t rows) const = 0;
  /// Brings what steps have changed to where rows live when no plan needs them.
  virtual void write_back(const OpContext& context) = 0;

  /// Whether [begin, begin + bytes) and the rows have memory in common.
  virtual bool overlaps(const void* begin, std::size_t bytes) const = 0;
  /// Memory in bytes, of the vectors and of all.
  virtual std::size_t vector_bytes() const = 0;
  virtual std::size_t size_in_bytes() const = 0;
};

/// All rows lie in device memory at the place of their number, which grows without moving them:
/// nothing is staged and nothing written back.
std::unique_ptr<RowStore> make_mapped_rows(MemoryResource& memory, const std::string& owner,
                                           const RowParts& parts, std::size_t max_rows);

}  // namespace hugectr
