// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>

#include "core/cpp/device/op.hpp"
#include "core/cpp/device/resource_manager.hpp"

namespace hugectr {

/// What an exchange does with a device's own share of what it brings: beside what is on its way, on
/// a stream of its own.
class StayingWork {
 public:
  /// Made while one thread has the device.
  explicit StayingWork(GPUResource& gpu);

  /// Whether so many bytes that stay are worth launches of their own: 8 MiB, or
  /// HUGECTR_APART_BYTES. On a CPU, where nothing goes beside, only if that is set.
  bool worth_it(std::size_t bytes) const { return bytes > 0 && bytes >= apart_bytes_; }

  /// What comes next waits for it as for what travels; or: the dense network has work for the
  /// device meanwhile, which goes first.
  enum class Urgency { Urgent, Filling };

  /// Calls travel(context) and stay(context of the stream beside); both follow what the context's
  /// stream holds, and it goes on behind both. On a CPU one after the other.
  template <class Travel, class Stay>
  void run(const OpContext& context, Urgency urgency, const Travel& travel,
           const Stay& stay) const {
    if (!done_) {
      stay(context);
      return travel(context);
    }
    const OpContext beside =
        urgency == Urgency::Urgent ? gpu_.staying_context() : gpu_.filling_context();
    context.stream->record(*before_);
    beside.stream->wait(*before_);
    travel(context);
    stay(beside);
    beside.stream->record(*done_);
    context.stream->wait(*done_);
  }

 private:
  GPUResource& gpu_;
  std::size_t apart_bytes_;
  std::unique_ptr<Event> before_, done_;  ///< null on a CPU
};

}  // namespace hugectr
