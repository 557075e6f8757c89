// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/ops/loops/float8.hpp"
#include "core/cpp/ops/loops/matrix.hpp"
#include "core/cuda/device/scratch.hpp"

namespace hugectr::cuda {

/// A matrix of fp8, its rows one after the other. `rows` and `columns` are multiples of 16; what
/// lies beyond the matrix it was made of are zeros.
struct Float8Matrix {
  std::uint8_t* data = nullptr;
  std::size_t rows = 0, columns = 0;
  Float8 kind = Float8::E4M3;
  const float* scale = nullptr;  ///< on the device: what its numbers are to be multiplied by
};

/// A factor rounded to fp8 as float8.hpp says, in memory of the stream: as it is, transposed, or
/// both, as tensor cores want the dimension that is summed over to lie along rows in either factor.
///
/// Two passes: the largest number, then the copies. Floor: reads the matrix twice, writes a byte an
/// element and copy. A maximum has no order, so a run repeats bit for bit.
class Float8Factor {
 public:
  enum class Copies { AsItIs, Transposed, Both };
  Float8Factor(const OpContext& context, const Matrix& matrix, Float8 kind, Copies copies);

  const Float8Matrix& as_it_is() const { return as_it_is_; }
  const Float8Matrix& transposed() const { return transposed_; }

 private:
  Scratch scratch_;
  Float8Matrix as_it_is_, transposed_;
};

}  // namespace hugectr::cuda
