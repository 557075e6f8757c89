// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "core/cpp/base/export.hpp"

/// What is left of an object in a child of fork(): its memory, but none of its threads, and every
/// lock in whatever state it was. So nothing there may use it, wait for it or destroy it.
namespace hugectr {

/// Forks that lie between this process and the one that loaded the core: another number in a child
/// than in its parent.
HCTR_API std::uint64_t fork_generation() noexcept;

/// The process that an object was made in.
class MadeIn {
 public:
  bool this_process() const noexcept { return generation_ == fork_generation(); }

 private:
  std::uint64_t generation_ = fork_generation();
};

/// A deleter that leaves the object alone in forked children.
class DeleteWhereMade {
 public:
  template <class T>
  void operator()(T* object) const {
    if (made_in_.this_process()) delete object;
  }

 private:
  MadeIn made_in_;
};

}  // namespace hugectr
