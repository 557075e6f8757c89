// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Kinds of device an op can have a kernel for.
enum class DeviceType : int { Cpu = 0, Cuda = 1 };

HCTR_API const char* to_string(DeviceType type);

/// One device of this process. CPU devices are virtual: "cpu:0" and "cpu:1" share the cores but
/// never each other's tensors. Index -1 is plain host memory, readable by every CPU device.
struct DeviceId {
  DeviceType type = DeviceType::Cpu;
  int index = -1;

  static DeviceId host() { return {}; }
  bool is_host() const { return type == DeviceType::Cpu && index < 0; }
  bool operator==(const DeviceId&) const = default;
};

HCTR_API std::string to_string(DeviceId id);

}  // namespace hugectr
