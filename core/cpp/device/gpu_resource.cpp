// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/cpp/device/resource_manager.hpp"

namespace hugectr {

CPUResource::CPUResource(std::uint64_t seed, std::shared_ptr<ThreadPool> pool)
    : seed_(seed), pool_(std::move(pool)) {}

GPUResource::GPUResource(DeviceBackend& backend, DeviceId device, std::size_t local_id,
                         std::size_t global_id, std::unique_ptr<Communicator> communicator,
                         std::unique_ptr<Communicator> plan_communicator, ThreadPool* pool)
    : backend_(backend),
      device_(device),
      local_id_(local_id),
      global_id_(global_id),
      communicator_(std::move(communicator)),
      plan_communicator_(std::move(plan_communicator)),
      pool_(pool),
      compute_stream_(backend.create_stream(device, "compute")),
      memcpy_stream_(backend.create_stream(device, "memcpy")),
      // A plan is many small pieces of work. Behind the large ones of the step it would take longer
      // than the step itself, which then waits for it.
      plan_stream_(backend.create_stream(device, "plan", StreamPriority::High)) {}

GPUResource::~GPUResource() = default;

OpContext GPUResource::compute_context() {
  return {compute_stream_.get(), pool_, communicator_.get(), device_, tf32_, algorithm_search_};
}

OpContext GPUResource::plan_context() {
  return {plan_stream_.get(), pool_, plan_communicator_.get(), device_};
}

}  // namespace hugectr
