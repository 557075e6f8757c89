// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/cpp/base/scalar_type.hpp"
#include "core/cpp/memory/growable_tensor.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {

/// What a row is made of besides its key: these parts go together wherever they lie.
struct RowParts {
  std::size_t vec_size = 0;  ///< numbers of vector_type
  /// What vectors are kept in: float32, or bfloat16, to which updates round (row_rounding.hpp).
  /// This is where it is said: whoever has RowArrays sees it there.
  TensorScalarType vector_type = TensorScalarType::Float32;
  std::vector<std::size_t> states;  ///< float32 numbers of each: vec_size or 1
  bool last_step = false;           ///< int64

  std::size_t vector_bytes() const { return vec_size * size_of(vector_type); }
  std::size_t row_bytes() const;
};

RowParts parts_of_row(std::size_t vec_size, TensorScalarType vector_type, const OptParams& params);

/// Memory that holds rows and that a device's ops reach: the row at place p is row p of each.
struct RowArrays {
  TensorRef vectors;              ///< (P, d) float32 or bfloat16
  std::vector<TensorRef> states;  ///< (P, d) or (P, 1) float32
  TensorRef last_step;            ///< (P) int64, or empty
};

/// Those that are there, vectors first.
std::vector<TensorRef> parts_of(const RowArrays& arrays);

/// Such memory, which grows without moving a row.
class GrowableRows {
 public:
  /// `device`: whose ops reach the memory; of `memory`, or the device that host memory serves.
  GrowableRows(MemoryResource& memory, DeviceId device, const std::string& owner,
               const RowParts& parts, std::size_t max_rows);

  /// Room for rows 0 .. rows - 1, the new ones without content. Throws OutOfMemory.
  void grow_to(std::size_t rows);
  std::size_t room() const;
  RowArrays arrays(std::size_t rows) const;
  /// Whether [begin, begin + bytes) and the rows have memory in common.
  bool overlaps(const void* begin, std::size_t bytes) const;
  /// Memory in bytes, of the vectors and of all.
  std::size_t vector_bytes() const { return vectors_.size_in_bytes(); }
  std::size_t size_in_bytes() const;

 private:
  DeviceId device_;
  GrowableTensor vectors_, last_step_;
  std::vector<GrowableTensor> states_;
};

}  // namespace hugectr
