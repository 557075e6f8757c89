// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/collection/shared_communicator.hpp"

#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/device_backend.hpp"

namespace hugectr {
namespace {

std::unique_ptr<Communicator> one_device_a_process(DeviceId device,
                                                   std::shared_ptr<IProcessGroup> processes) {
  HCTR_CHECK(processes != nullptr, "tables are exchanged between several processes");
  JobRanks job;
  for (std::size_t p = 0; p < processes->size(); ++p) job.process_of_rank.push_back(p);
  job.processes = std::move(processes);
  return std::move(DeviceBackend::get(device.type).create_communicators({device}, job).front());
}

}  // namespace

SharedCommunicator::SharedCommunicator(DeviceId device, std::shared_ptr<IProcessGroup> processes)
    : communicator_(one_device_a_process(device, std::move(processes))) {}

SharedCommunicator::~SharedCommunicator() {
  communicator_->rest();
  static_cast<void>(communicator_.release());  // it ends with the process: see above
}

std::shared_ptr<SharedCommunicator::Place> SharedCommunicator::take_place() {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Place> place(new Place(*this, first_ + passed_.size()));
  passed_.push_back(false);
  return place;
}

Communicator& SharedCommunicator::Place::wait() {
  std::unique_lock lock(of_.mutex_);
  of_.changed_.wait(lock, [&] { return of_.first_ == number_; });
  return *of_.communicator_;
}

void SharedCommunicator::Place::pass() noexcept {
  {
    const std::lock_guard lock(of_.mutex_);
    if (number_ < of_.first_) return;
    of_.passed_[number_ - of_.first_] = true;
    while (!of_.passed_.empty() && of_.passed_.front()) {
      of_.passed_.pop_front();
      ++of_.first_;
    }
  }
  of_.changed_.notify_all();
}

}  // namespace hugectr
