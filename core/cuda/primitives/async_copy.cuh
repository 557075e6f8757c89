// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cuda/primitives/row_tail.cuh"

/// Copies from global to shared memory that a thread starts and waits for later, in groups.
namespace hugectr::cuda {

__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// 16 bytes, of which `bytes` are read and the others become zero. Both pointers are aligned to 16.
__device__ inline void copy_16_async(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}

/// The pack of a row of n that begins at `column`; what lies behind the row becomes zeros. The copy
/// itself reads no byte of that, but a checker of memory accesses counts 16 of them: the last row
/// of a tensor may end with its allocation, so its last pack is brought element by element.
template <class T>
__device__ void copy_row_pack_async(T* to, const T* row, unsigned column, unsigned n, bool last) {
  if (last && column + kPack<T> > n) {
    *reinterpret_cast<Pack<T, kPack<T>>*>(to) = load_row_pack<kPack<T>>(row, column, n);
  } else {
    copy_16_async(to, row + column, min(16u, static_cast<unsigned>((n - column) * sizeof(T))));
  }
}

__device__ inline void copy_4_async(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}

/// Ends this thread's group of copies; an empty group is one too.
__device__ inline void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most kPending of this thread's latest groups are under way.
template <int kPending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace hugectr::cuda
