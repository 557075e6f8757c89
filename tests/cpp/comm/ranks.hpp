// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/cpu_stream.hpp"
#include "tests/cpp/comm/thread_process_groups.hpp"

namespace hugectr {

/// [rank]: the process it lives in.
using Processes = std::vector<std::size_t>;

/// Ranks with their communicators and streams, driven by one thread as the streams queue. Several
/// processes are parts of this one.
struct Ranks {
  explicit Ranks(std::size_t n) : Ranks(Processes(n, 0)) {}
  explicit Ranks(const Processes& process_of_rank) {
    const std::size_t processes = *std::max_element(process_of_rank.begin(), process_of_rank.end());
    groups = ThreadProcessGroup::make(processes + 1);
    communicators.resize(process_of_rank.size());
    for (const auto& group : groups) {
      for (auto& communicator : make_host_communicators({process_of_rank, group})) {
        communicators[communicator->rank()] = std::move(communicator);
      }
    }
    for (std::size_t r = 0; r < process_of_rank.size(); ++r) {
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
  std::vector<std::shared_ptr<IProcessGroup>> groups;  ///< [process]
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<Stream>> streams;
};

}  // namespace hugectr
