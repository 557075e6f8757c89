// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/device/stream.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

namespace hugectr {

/// The values of a float32 tensor, copied to the host when the stream has come to them.
inline std::vector<float> to_host(Stream& stream, const TensorRef& ref) {
  std::vector<float> values(ref.size());
  stream.copy(values.data(), ref.data, ref.size_in_bytes());
  stream.synchronize();
  return values;
}

}  // namespace hugectr
