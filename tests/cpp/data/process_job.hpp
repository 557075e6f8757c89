// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "tests/cpp/comm/thread_process_groups.hpp"

namespace hugectr::testing {

/// What one "process" of a job in one program has.
struct JobProcess {
  std::size_t rank = 0, size = 1;
  std::shared_ptr<IProcessGroup> group;  ///< null in a job of one
  std::shared_ptr<ResourceManager> resources;
};

/// Runs f(process) on one thread for each of the processes, with `devices` devices each. The first
/// exception wakes the others and is rethrown.
template <class F>
void run_job(std::size_t processes, std::size_t devices, const F& f,
             DeviceLayout layout = DeviceLayout::LocalFirst) {
  std::vector<std::vector<int>> vvgpu(processes);
  for (auto& row : vvgpu) {
    for (std::size_t d = 0; d < devices; ++d) row.push_back(static_cast<int>(d));
  }
  const auto groups = ThreadProcessGroup::make(processes);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto group = processes > 1 ? groups[rank] : nullptr;
        f(JobProcess{rank, processes, group,
                     ResourceManager::create(vvgpu, 1, DeviceType::Cpu, layout, group)});
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        groups[rank]->abort(std::string("process ") + std::to_string(rank) + ": " + error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace hugectr::testing
