// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"

namespace hugectr {

/// The one table (op name, device kind) -> kernel. It is exported and not a template: a plug-in
/// registers its kernels into this same object (a header-only registry would be duplicated per
/// library under hidden visibility and the plug-in's entries never seen).
class HCTR_API OpTable {
 public:
  using AnyKernel = void (*)();

  static OpTable& instance();

  /// Registers a kernel; a second one for the same (op, device) throws InvalidArgument.
  void add(std::string_view op, DeviceType device, AnyKernel kernel);

  /// Returns the kernel or throws DeviceError naming op and device: there is no fallback.
  AnyKernel find(std::string_view op, DeviceType device) const;

  bool has(std::string_view op, DeviceType device) const;

  /// Names of all ops with a kernel on the device, sorted.
  std::vector<std::string> ops(DeviceType device) const;

 private:
  OpTable();
  struct Impl;
  Impl* impl_;
};

}  // namespace hugectr
