// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "core/cuda/device/cuda_event.hpp"
#include "core/cuda/device/cuda_stream.hpp"

namespace hugectr::cuda {

/// Streams beside one: for pieces of an op's work that need not wait for each other, each too
/// small to fill the device. Made when they are asked for, kept as long as the stream they are of.
class SideStreams {
 public:
  /// At most so many: more small launches at once do not end sooner.
  static constexpr std::size_t kMost = 3;

  SideStreams(DeviceId device, StreamPriority priority) : device_(device), priority_(priority) {}
  /// Those after stream(i) have waited for what `main` holds now.
  void fork(CudaStream& main, std::size_t count);
  /// `main` goes on after what the first `count` hold now.
  void join(CudaStream& main, std::size_t count);
  CudaStream& stream(std::size_t i) { return *sides_.at(i).stream; }

 private:
  struct Side {
    std::unique_ptr<CudaStream> stream;
    std::unique_ptr<CudaEvent> done;
  };
  const DeviceId device_;
  const StreamPriority priority_;
  std::unique_ptr<CudaEvent> begun_;
  std::vector<Side> sides_;
};

}  // namespace hugectr::cuda
