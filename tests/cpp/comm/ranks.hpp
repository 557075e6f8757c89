// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/cpu_stream.hpp"

namespace hugectr {

/// n ranks, each with its communicator and stream, driven by one thread as the streams queue.
struct Ranks {
  explicit Ranks(std::size_t n) : communicators(make_in_process_communicators(n)) {
    for (std::size_t r = 0; r < n; ++r) {
      streams.push_back(make_cpu_stream({DeviceType::Cpu, static_cast<int>(r)}, "rank"));
    }
  }
  /// Calls f(rank, communicator, stream) for every rank, then waits for all.
  template <class F>
  void run(const F& f) {
    for (std::size_t r = 0; r < streams.size(); ++r) f(r, *communicators[r], *streams[r]);
    for (auto& stream : streams) stream->synchronize();
  }
  // Streams go first: their tasks use what the communicators share.
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<Stream>> streams;
};

}  // namespace hugectr
