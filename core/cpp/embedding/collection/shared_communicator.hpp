// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"
#include "core/cpp/comm/communicator.hpp"

namespace hugectr {

/// A communicator of a device a process, which several threads call in an order that is the same on
/// all processes: who hands work to a thread takes the next place, and the thread waits for it.
///
/// There is one for all collections of the same processes, for it takes memory of each device until
/// the process ends: NCCL's end of a communicator waits for the other ranks of the node, and
/// collections end when Python's collector finds them, at another time in each process.
class HCTR_API SharedCommunicator {
 public:
  /// A place in the order. Who goes without having used it, after an error say, passes it on.
  class Place {
   public:
    ~Place() { pass(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    /// Waits until all places before have passed.
    Communicator& wait();
    /// Lets the next one go on.
    void pass() noexcept;

   private:
    friend class SharedCommunicator;
    Place(SharedCommunicator& of, std::size_t number) : of_(of), number_(number) {}

    SharedCommunicator& of_;
    const std::size_t number_;
  };

  /// Collective.
  SharedCommunicator(DeviceId device, std::shared_ptr<IProcessGroup> processes);
  /// Nobody has a place any more, and what was called has ended on the device.
  ~SharedCommunicator();

  std::shared_ptr<Place> take_place();
  /// Makes all calls, those of other processes among them, throw CommError(reason).
  void abort(const std::string& reason) noexcept { communicator_->abort(reason); }

 private:
  std::unique_ptr<Communicator> communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t first_ = 0;    ///< the place whose turn it is
  std::deque<bool> passed_;  ///< of it and those behind it
};

}  // namespace hugectr
