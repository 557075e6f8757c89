// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/reduction.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// Sums block by block into a buffer that stays in the first-level cache, so that each source is
/// read once and each target written once.
template <class T>
void sum_typed(const std::vector<const void*>& sources, const std::vector<void*>& targets,
               std::size_t begin, std::size_t end) {
  constexpr std::size_t kBlock = 8192 / sizeof(T);
  alignas(64) T sum[kBlock];
  for (std::size_t first = begin; first < end; first += kBlock) {
    const std::size_t n = std::min(kBlock, end - first);
    std::memcpy(sum, static_cast<const T*>(sources[0]) + first, n * sizeof(T));
    for (std::size_t r = 1; r < sources.size(); ++r) {
      const T* __restrict source = static_cast<const T*>(sources[r]) + first;
      T* __restrict into = sum;
      for (std::size_t i = 0; i < n; ++i) into[i] += source[i];
    }
    for (void* target : targets) std::memcpy(static_cast<T*>(target) + first, sum, n * sizeof(T));
  }
}

}  // namespace

bool can_sum(TensorScalarType type) {
  return type == TensorScalarType::Float32 || type == TensorScalarType::Float64 ||
         type == TensorScalarType::Int64 || type == TensorScalarType::Int32 ||
         type == TensorScalarType::UInt32;
}

void sum_range(TensorScalarType type, const std::vector<const void*>& sources,
               const std::vector<void*>& targets, std::size_t begin, std::size_t end) {
  switch (type) {
    case TensorScalarType::Float32:
      return sum_typed<float>(sources, targets, begin, end);
    case TensorScalarType::Float64:
      return sum_typed<double>(sources, targets, begin, end);
    // Signed sums go through the unsigned type: they wrap, the bits are the same.
    case TensorScalarType::Int64:
      return sum_typed<std::uint64_t>(sources, targets, begin, end);
    case TensorScalarType::Int32:
    case TensorScalarType::UInt32:
      return sum_typed<std::uint32_t>(sources, targets, begin, end);
    default:
      throw InvalidArgument(concat("can not sum ", to_string(type)));
  }
}

}  // namespace hugectr
