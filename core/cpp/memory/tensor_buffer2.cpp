// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/memory/tensor_buffer2.hpp"

namespace hugectr {

TensorBuffer2::~TensorBuffer2() = default;

}  // namespace hugectr
