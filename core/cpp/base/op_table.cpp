// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/op_table.hpp"

#include <array>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "core/cpp/base/error.hpp"

namespace hugectr {

struct OpTable::Impl {
  mutable std::shared_mutex mutex;
  std::map<std::string, std::array<AnyKernel, 2>, std::less<>> kernels;
};

OpTable::OpTable() : impl_(new Impl) {}

OpTable& OpTable::instance() {
  // Never destroyed: static objects of a plug-in may outlive those of this library.
  static auto* const table = new OpTable;
  return *table;
}

void OpTable::add(std::string_view op, DeviceType device, AnyKernel kernel) {
  HCTR_CHECK(kernel != nullptr, "op '", op, "' was registered for ", to_string(device),
             " without a kernel");
  const std::unique_lock lock(impl_->mutex);
  auto& entry = impl_->kernels.try_emplace(std::string(op)).first->second;
  AnyKernel& place = entry[static_cast<int>(device)];
  HCTR_CHECK(place == nullptr, "op '", op, "' already has a kernel for ", to_string(device),
             ": two OpRegistration objects use this name, rename one of the ops");
  place = kernel;
}

OpTable::AnyKernel OpTable::find(std::string_view op, DeviceType device) const {
  const std::shared_lock lock(impl_->mutex);
  const auto it = impl_->kernels.find(op);
  if (it == impl_->kernels.end()) {
    throw DeviceError(concat("op '", op, "' has no kernel for ", to_string(device),
                             " or any other device: check the spelling (op_names lists what this "
                             "build has), or register a kernel with OpRegistration"));
  }
  const AnyKernel kernel = it->second[static_cast<int>(device)];
  if (kernel == nullptr) {
    const DeviceType other = device == DeviceType::Cpu ? DeviceType::Cuda : DeviceType::Cpu;
    throw DeviceError(concat("op '", op, "' has no kernel for ", to_string(device),
                             "; it has one for ", to_string(other), ": run on device \"",
                             to_string(other), "\", or register a kernel with OpRegistration"));
  }
  return kernel;
}

bool OpTable::has(std::string_view op, DeviceType device) const {
  const std::shared_lock lock(impl_->mutex);
  const auto it = impl_->kernels.find(op);
  return it != impl_->kernels.end() && it->second[static_cast<int>(device)] != nullptr;
}

std::vector<std::string> OpTable::ops(DeviceType device) const {
  const std::shared_lock lock(impl_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, kernels] : impl_->kernels) {
    if (kernels[static_cast<int>(device)] != nullptr) names.push_back(name);
  }
  return names;
}

}  // namespace hugectr
