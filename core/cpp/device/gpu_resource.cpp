// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/cpp/device/resource_manager.hpp"

namespace hugectr {

CPUResource::CPUResource(std::uint64_t seed, std::shared_ptr<ThreadPool> pool)
    : seed_(seed), pool_(std::move(pool)) {}

GPUResource::GPUResource(DeviceBackend& backend, DeviceId device, std::size_t local_id,
                         std::size_t global_id, DeviceCommunicators communicators, ThreadPool* pool)
    : backend_(backend),
      device_(device),
      local_id_(local_id),
      global_id_(global_id),
      communicators_(std::move(communicators)),
      pool_(pool),
      compute_stream_(backend.create_stream(device, "compute")),
      memcpy_stream_(backend.create_stream(device, "memcpy")),
      // A plan is many small pieces of work. Behind the large ones of the step it would take longer
      // than the step itself, which then waits for it.
      plan_stream_(backend.create_stream(device, "plan", StreamPriority::High)),
      // A sum of gradients that waits behind the rest of backward overlaps nothing.
      exchange_stream_(backend.create_stream(device, "exchange", StreamPriority::High)) {}

GPUResource::~GPUResource() = default;

StagingPieces& GPUResource::staging_pieces() {
  if (!staging_pieces_) {
    staging_pieces_ = std::make_unique<StagingPieces>(backend_, device_, "rows on their way");
  }
  return *staging_pieces_;
}

OpContext GPUResource::compute_context() {
  return {compute_stream_.get(), pool_, communicators_.step.get(), device_, tf32_,
          algorithm_search_};
}

OpContext GPUResource::plan_context() {
  return {plan_stream_.get(), pool_, communicators_.plan.get(), device_};
}

OpContext GPUResource::exchange_context() {
  return {exchange_stream_.get(), pool_, communicators_.exchange.get(), device_};
}

OpContext GPUResource::move_context() { return {&move_stream(), pool_, nullptr, device_}; }

Stream& GPUResource::move_stream() {
  if (!move_stream_) move_stream_ = backend_.create_stream(device_, "move", StreamPriority::High);
  return *move_stream_;
}

OpContext GPUResource::arrive_context() { return {&arrive_stream(), pool_, nullptr, device_}; }

Stream& GPUResource::arrive_stream() {
  if (!arrive_stream_) {
    // Needed by the next step alone: kernels of the step go first.
    arrive_stream_ = backend_.create_stream(device_, "arrive");
  }
  return *arrive_stream_;
}

OpContext GPUResource::staying_context() { return {&staying_stream(), pool_, nullptr, device_}; }

Stream& GPUResource::staying_stream() {
  if (!staying_stream_) {
    staying_stream_ = backend_.create_stream(device_, "staying", StreamPriority::High);
  }
  return *staying_stream_;
}

std::vector<Stream*> GPUResource::streams() {
  std::vector<Stream*> all{memcpy_stream_.get(), plan_stream_.get()};
  if (move_stream_) all.push_back(move_stream_.get());  // behind the plans that it waits for
  if (arrive_stream_) all.push_back(arrive_stream_.get());
  if (staying_stream_) all.push_back(staying_stream_.get());
  all.insert(all.end(), {exchange_stream_.get(), compute_stream_.get()});
  return all;
}

void GPUResource::abort(const std::string& reason) noexcept {
  for (Communicator* communicator : communicators_.all()) communicator->abort(reason);
}

void GPUResource::leave(const std::string& reason) noexcept {
  for (Communicator* communicator : communicators_.all()) communicator->leave(reason);
}

void GPUResource::rest() noexcept {
  for (Communicator* communicator : communicators_.all()) communicator->rest();
}

void GPUResource::wait_until_left() noexcept {
  for (Communicator* communicator : communicators_.all()) communicator->wait_until_left();
}

}  // namespace hugectr
