// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/blas_room.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// A buffer of OpenBLAS 0.3 on x86-64, and 143 kB of variables a thread, rounded up.
constexpr std::size_t kBytes = (std::size_t{32} << 20) + (std::size_t{1} << 20);

std::atomic<int> calls{0};  // under way
std::atomic<int> most{0};   // that there was room for; OpenBLAS keeps its buffers
// Of this thread. Initial-exec variables are there from its start: others are made when first used,
// and a lack of memory then ends the process.
[[gnu::tls_model("initial-exec")]] thread_local bool has_room = false;

void look_for_room(int n) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (has_room && n <= most.load()) return;
  void* const room =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    throw OutOfMemory(concat(
        "OpenBLAS needs ", kBytes >> 20,
        " MiB of address space for each thread that multiplies matrices: ", std::strerror(errno),
        "; raise the limit (ulimit -v) or use fewer threads "
        "(HUGECTR_NUM_THREADS)"));
  }
  munmap(room, kBytes);
  has_room = true;
  if (n > most.load()) most.store(n);
}

}  // namespace

BlasRoom::BlasRoom() {
  const int n = calls.fetch_add(1) + 1;
  if (has_room && n <= most.load()) return;
  try {
    look_for_room(n);
  } catch (...) {
    calls.fetch_sub(1);
    throw;
  }
}

BlasRoom::~BlasRoom() { calls.fetch_sub(1); }

}  // namespace hugectr
