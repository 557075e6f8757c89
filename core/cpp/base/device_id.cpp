// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/device_id.hpp"

namespace hugectr {

const char* to_string(DeviceType type) { return type == DeviceType::Cuda ? "cuda" : "cpu"; }

std::string to_string(DeviceId id) {
  if (id.is_host()) return "host";
  return std::string(to_string(id.type)) + ":" + std::to_string(id.index);
}

}  // namespace hugectr
