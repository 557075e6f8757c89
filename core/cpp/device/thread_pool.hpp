// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/fork.hpp"

namespace hugectr {

/// What run_chunks() calls: refers to anything that takes the chunk's number. A std::function would
/// allocate, and compile to several functions a loop.
class ChunkBody {
 public:
  template <class Body>
  ChunkBody(const Body& body)  // NOLINT(google-explicit-constructor)
      : body_(&body),
        call_([](const void* any, std::size_t chunk) { (*static_cast<const Body*>(any))(chunk); }) {
  }
  void operator()(std::size_t chunk) const { call_(body_, chunk); }

 private:
  const void* body_;
  void (*call_)(const void* body, std::size_t chunk);
};

/// The one pool of CPU threads, shared by all local devices, so that eight virtual devices on two
/// cores never oversubscribe. A caller always works on its own loop, so nested loops and loops
/// from many threads can not deadlock.
class HCTR_API ThreadPool {
 public:
  /// `threads` threads take part in a loop, the caller included; 0 takes HUGECTR_NUM_THREADS or,
  /// where that is unset, the cores this process may run on. Throws OutOfMemory when one of them
  /// can not be started.
  explicit ThreadPool(std::size_t threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const;

  /// Calls body(chunk) for chunk in [0, chunks), in any order, on any thread; returns when all are
  /// done. The first exception of a body is rethrown in the caller. Throws DeviceError in a forked
  /// child of the process that made the pool.
  void run_chunks(std::size_t chunks, const ChunkBody& body);

  /// Pool threads that wait awake at this moment and would begin a loop within a microsecond. Only
  /// a hint: the next moment they may sleep, or run and have no core.
  std::size_t awake() const;

  /// Has a sleeping thread, if there is one, wake and wait awake for a while (about 160
  /// microseconds), for a loop that comes soon and is shorter than waking up takes.
  void rouse();

  /// Chunks that pool threads have run since the pool was made, those of callers not counted.
  std::uint64_t helped() const;

 private:
  struct Impl;
  MadeIn made_in_;
  std::unique_ptr<Impl, DeleteWhereMade> impl_;
};

/// body(begin, end) over [0, n) in pieces of `grain` items (the last may be shorter). The pieces
/// depend on n and grain only, never on the number of threads: sums over pieces are reproducible.
template <class Body>
void parallel_for(ThreadPool& pool, std::size_t n, std::size_t grain, const Body& body) {
  if (n == 0) return;
  grain = std::max<std::size_t>(grain, 1);
  const std::size_t chunks = (n + grain - 1) / grain;
  if (chunks == 1) {
    body(std::size_t{0}, n);
    return;
  }
  pool.run_chunks(
      chunks, [&](std::size_t chunk) { body(chunk * grain, std::min(n, (chunk + 1) * grain)); });
}

}  // namespace hugectr
