// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// How global ids are dealt: all devices of a process first, or the first device of every process
/// first (node-first requires the same count in every row of vvgpu).
enum class DeviceLayout { LocalFirst, NodeFirst };

/// Global id <-> (process, local id) <-> device id, from vvgpu (one row per process).
class HCTR_API DeviceMap {
 public:
  DeviceMap(std::vector<std::vector<int>> vvgpu, std::size_t process_id,
            DeviceLayout layout = DeviceLayout::LocalFirst);

  const std::vector<int>& get_device_list() const { return vvgpu_[process_id_]; }
  std::size_t size() const { return global_to_process_.size(); }
  std::size_t get_local_size() const { return vvgpu_[process_id_].size(); }
  std::size_t num_processes() const { return vvgpu_.size(); }
  std::size_t get_process_id() const { return process_id_; }
  std::size_t get_global_id(std::size_t local_id) const;
  /// -1 when the device belongs to another process.
  int get_local_id(std::size_t global_id) const;
  std::size_t get_pid(std::size_t global_id) const;

 private:
  std::vector<std::vector<int>> vvgpu_;
  std::size_t process_id_;
  std::vector<std::size_t> global_to_process_;
  std::vector<std::size_t> global_to_local_;
  std::vector<std::size_t> local_to_global_;
};

}  // namespace hugectr
