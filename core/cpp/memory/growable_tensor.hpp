// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/scalar_type.hpp"
#include "core/cpp/memory/memory_resource.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// Rows of equal width on GrowableMemory: growing never moves or copies a row.
class HCTR_API GrowableTensor {
 public:
  GrowableTensor() = default;
  /// Reserves address space for max_rows rows of row_size elements.
  GrowableTensor(MemoryResource& resource, TensorScalarType type, std::size_t row_size,
                 std::size_t max_rows, std::string name);

  /// Makes at least `rows` rows usable; new rows are zero. Grows by about an eighth of the present
  /// size at least, a thirty-second once that is more than 64 MiB, so that growing row by row maps
  /// pages rarely and a large tensor has few rows to spare. Throws OutOfMemory naming the tensor
  /// when more than max_rows are asked for.
  void grow_to(std::size_t rows);

  std::size_t rows() const { return rows_; }          ///< rows mapped now
  std::size_t max_rows() const { return max_rows_; }  ///< rows reserved
  std::size_t row_size() const { return row_size_; }
  std::size_t size_in_bytes() const { return memory_ ? memory_->size() : 0; }
  /// View of rows [first, first + count).
  TensorRef ref(std::size_t first, std::size_t count) const;
  /// View of all mapped rows.
  TensorRef ref() const { return ref(0, rows_); }

 private:
  std::shared_ptr<GrowableMemory> memory_;
  DeviceId device_;
  TensorScalarType type_ = TensorScalarType::None;
  std::size_t row_size_ = 0;
  std::size_t rows_ = 0;
  std::size_t max_rows_ = 0;
  std::string name_;
};

}  // namespace hugectr
