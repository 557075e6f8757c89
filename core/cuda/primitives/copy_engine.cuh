// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <cstdint>

/// Hopper's copy engine (boxes of a matrix to and from shared memory) and the barriers that it
/// completes on. Code for sm_90a.
namespace hugectr::cuda {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// A barrier of shared memory: a phase ends when all expected threads have arrived and all expected
/// bytes have come.
struct Barrier {
  std::uint64_t state;

  __device__ void init(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state)),
                 "r"(arrivals)
                 : "memory");
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state))
                 : "memory");
  }
  __device__ void arrive_and_expect(unsigned bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state)),
        "r"(bytes)
        : "memory");
  }
  /// Waits for the end of the phase of this parity: 0 for the first one, then in turn. The phase
  /// before the first counts as one of parity 1 that has ended.
  __device__ void wait(unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra END;\n"
        "bra WAIT;\n"
        "END:\n"
        "}" ::"r"(shared_address(&state)),
        "r"(parity)
        : "memory");
  }
};

/// Makes initialised barriers visible to the copy engine.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Makes what this thread wrote to shared memory visible to the copy engine and to wgmma.
__device__ inline void publish_shared_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Box whose first element is (row, column), to shared memory; its bytes count for the barrier.
__device__ inline void load_box(void* to, const CUtensorMap& map, std::uint32_t row,
                                std::uint32_t column, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier.state)), "r"(column), "r"(row)
      : "memory");
}

/// Box from shared memory; end a group of them with commit_stores().
__device__ inline void store_box(const CUtensorMap& map, std::uint32_t row, std::uint32_t column,
                                 const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
          &map),
      "r"(shared_address(from)), "r"(column), "r"(row)
      : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until the shared memory of this thread's stores may be written again.
__device__ inline void wait_for_stores_to_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
/// Waits until this thread's stores are done.
__device__ inline void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace hugectr::cuda
