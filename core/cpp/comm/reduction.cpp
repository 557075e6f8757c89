// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/reduction.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/half.hpp"

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

/// The same for 16-bit numbers, whose sums are float32.
template <class T, class Narrow>
void sum_widened(const std::vector<const void*>& sources, const std::vector<void*>& targets,
                 std::size_t begin, std::size_t end, const Narrow& narrow) {
  constexpr std::size_t kBlock = 2048;
  float sum[kBlock];
  T rounded[kBlock];
  for (std::size_t first = begin; first < end; first += kBlock) {
    const std::size_t n = std::min(kBlock, end - first);
    std::fill(sum, sum + n, 0.0f);
    for (const void* source : sources) {
      const T* from = static_cast<const T*>(source) + first;
      for (std::size_t i = 0; i < n; ++i) sum[i] += to_float(from[i]);
    }
    for (std::size_t i = 0; i < n; ++i) rounded[i] = narrow(sum[i]);
    for (void* to : targets) std::memcpy(static_cast<T*>(to) + first, rounded, n * sizeof(T));
  }
}

}  // namespace

bool can_sum(TensorScalarType type) {
  return type == TensorScalarType::Float32 || type == TensorScalarType::Float64 ||
         type == TensorScalarType::Float16 || type == TensorScalarType::BFloat16 ||
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
    case TensorScalarType::Float16:
      return sum_widened<Float16>(sources, targets, begin, end, to_float16);
    case TensorScalarType::BFloat16:
      return sum_widened<BFloat16>(sources, targets, begin, end, to_bfloat16);
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
