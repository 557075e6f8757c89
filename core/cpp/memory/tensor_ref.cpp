// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/tensor_ref.hpp"

#include "core/cpp/base/error.hpp"

namespace hugectr {

void TensorRef::throw_other_dtype(TensorScalarType wanted) const {
  throw InvalidArgument(concat("tensor holds ", to_string(dtype), ", not ", to_string(wanted)));
}

}  // namespace hugectr
