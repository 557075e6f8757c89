// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/device_map.hpp"

#include <set>
#include <utility>

#include "core/cpp/base/error.hpp"

namespace hugectr {

DeviceMap::DeviceMap(std::vector<std::vector<int>> vvgpu, std::size_t process_id,
                     DeviceLayout layout)
    : vvgpu_(std::move(vvgpu)), process_id_(process_id) {
  HCTR_CHECK(!vvgpu_.empty(), "vvgpu is empty: give one row of device ids per process, e.g. [[0]]");
  for (std::size_t p = 0; p < vvgpu_.size(); ++p) {
    const auto& row = vvgpu_[p];
    HCTR_CHECK(!row.empty(), "vvgpu[", p, "] is empty: every process needs at least one device id");
    std::set<int> seen;
    for (const int id : row) {
      HCTR_CHECK(id >= 0, "vvgpu[", p, "] holds ", id, ": device ids start at 0");
      HCTR_CHECK(seen.insert(id).second, "vvgpu[", p, "] holds device ", id,
                 " twice: name each device of a process once");
    }
    HCTR_CHECK(layout == DeviceLayout::LocalFirst || row.size() == vvgpu_[0].size(),
               "device layout NodeFirst needs rows of one length in vvgpu: row 0 has ",
               vvgpu_[0].size(), " devices and row ", p, " has ", row.size(),
               "; use LocalFirst or equal rows");
  }
  HCTR_CHECK(process_id_ < vvgpu_.size(), "process ", process_id_,
             " has no row in vvgpu, which has ", vvgpu_.size(),
             ": give one row of device ids per process");

  auto deal = [&](std::size_t process, std::size_t local) {
    if (process == process_id_) local_to_global_.push_back(global_to_process_.size());
    global_to_process_.push_back(process);
    global_to_local_.push_back(local);
  };
  if (layout == DeviceLayout::LocalFirst) {
    for (std::size_t p = 0; p < vvgpu_.size(); ++p) {
      for (std::size_t l = 0; l < vvgpu_[p].size(); ++l) deal(p, l);
    }
  } else {
    for (std::size_t l = 0; l < vvgpu_[0].size(); ++l) {
      for (std::size_t p = 0; p < vvgpu_.size(); ++p) deal(p, l);
    }
  }
}

std::size_t DeviceMap::get_global_id(std::size_t local_id) const {
  HCTR_CHECK(local_id < local_to_global_.size(), "no local device ", local_id, ": process ",
             process_id_, " has ", local_to_global_.size());
  return local_to_global_[local_id];
}

int DeviceMap::get_local_id(std::size_t global_id) const {
  return get_pid(global_id) == process_id_ ? static_cast<int>(global_to_local_[global_id]) : -1;
}

std::size_t DeviceMap::get_pid(std::size_t global_id) const {
  HCTR_CHECK(global_id < global_to_process_.size(), "no global device ", global_id,
             ": the job has ", global_to_process_.size());
  return global_to_process_[global_id];
}

}  // namespace hugectr
