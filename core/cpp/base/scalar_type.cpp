// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/scalar_type.hpp"

namespace hugectr {

std::size_t size_of(TensorScalarType type) {
  switch (type) {
    case TensorScalarType::None:
      return 0;
    case TensorScalarType::Void:
    case TensorScalarType::UInt8:
      return 1;
    case TensorScalarType::Float16:
    case TensorScalarType::BFloat16:
      return 2;
    case TensorScalarType::Float32:
    case TensorScalarType::Int32:
    case TensorScalarType::UInt32:
      return 4;
    case TensorScalarType::Float64:
    case TensorScalarType::Int64:
    case TensorScalarType::UInt64:
      return 8;
  }
  return 0;
}

const char* to_string(TensorScalarType type) {
  switch (type) {
    case TensorScalarType::None:
      return "none";
    case TensorScalarType::Void:
      return "void";
    case TensorScalarType::Float32:
      return "float32";
    case TensorScalarType::Float16:
      return "float16";
    case TensorScalarType::BFloat16:
      return "bfloat16";
    case TensorScalarType::Float64:
      return "float64";
    case TensorScalarType::Int64:
      return "int64";
    case TensorScalarType::UInt64:
      return "uint64";
    case TensorScalarType::Int32:
      return "int32";
    case TensorScalarType::UInt32:
      return "uint32";
    case TensorScalarType::UInt8:
      return "uint8";
  }
  return "unknown";
}

}  // namespace hugectr
