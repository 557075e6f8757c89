// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/half.hpp"

namespace hugectr {

/// Element types of tensors.
enum class TensorScalarType : int {
  None,
  Void,
  Float32,
  Float16,
  BFloat16,
  Int64,
  UInt64,
  Int32,
  UInt32,
  UInt8,
  Float64,  ///< only partial sums that travel between devices
};

/// Size of one element in bytes; 0 for None, 1 for Void.
HCTR_API std::size_t size_of(TensorScalarType type);
HCTR_API const char* to_string(TensorScalarType type);

/// Maps a C++ type to its TensorScalarType.
template <class T>
struct ScalarTypeOf;
template <>
struct ScalarTypeOf<void> {
  static constexpr TensorScalarType value = TensorScalarType::Void;
};
template <>
struct ScalarTypeOf<float> {
  static constexpr TensorScalarType value = TensorScalarType::Float32;
};
template <>
struct ScalarTypeOf<double> {
  static constexpr TensorScalarType value = TensorScalarType::Float64;
};
template <>
struct ScalarTypeOf<Float16> {
  static constexpr TensorScalarType value = TensorScalarType::Float16;
};
template <>
struct ScalarTypeOf<BFloat16> {
  static constexpr TensorScalarType value = TensorScalarType::BFloat16;
};
template <>
struct ScalarTypeOf<std::int64_t> {
  static constexpr TensorScalarType value = TensorScalarType::Int64;
};
template <>
struct ScalarTypeOf<std::uint64_t> {
  static constexpr TensorScalarType value = TensorScalarType::UInt64;
};
template <>
struct ScalarTypeOf<std::int32_t> {
  static constexpr TensorScalarType value = TensorScalarType::Int32;
};
template <>
struct ScalarTypeOf<std::uint32_t> {
  static constexpr TensorScalarType value = TensorScalarType::UInt32;
};
template <>
struct ScalarTypeOf<std::uint8_t> {
  static constexpr TensorScalarType value = TensorScalarType::UInt8;
};

}  // namespace hugectr
