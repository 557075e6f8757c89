// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Where the parameters of a network lie: packed in files and in the vectors users see, aligned in
/// the flat buffers of a device (weights, gradients, each optimizer state, 16-bit weights).
///
/// On a device every parameter begins at a multiple of kAlign elements, 16 bytes of 16-bit numbers,
/// so that kernels may use 16-byte accesses whatever the size of the parameter before. The gaps
/// hold zeros and stay zero: their gradient is zero.
class HCTR_API ParameterLayout {
 public:
  static constexpr std::size_t kAlign = 8;

  /// The next parameter in file order.
  void add(std::size_t elements);

  /// First element of parameter i in a flat device buffer.
  const std::vector<std::size_t>& offsets() const { return offsets_; }
  /// Elements of all parameters: what a file holds.
  std::size_t count() const { return count_; }
  /// Elements of a flat device buffer, gaps included; a multiple of kAlign.
  std::size_t flat_size() const { return flat_size_; }

  /// Arrays of count() elements, one after the other -> as many of flat_size(), and back.
  std::vector<float> spread(const std::vector<float>& packed) const;
  std::vector<float> pack(const std::vector<float>& flat) const;

 private:
  std::vector<std::size_t> offsets_, sizes_;
  std::size_t count_ = 0, flat_size_ = 0;
};

}  // namespace hugectr
