// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/thread_memory.hpp"

#include <cstdlib>
#include <exception>

namespace hugectr {
namespace {

/// More than those variables and what the loader notes of them: a new thread has a heap of its own
/// to find as well, which comes in such pieces at least.
constexpr std::size_t kToThrow = std::size_t{16} << 10;

}  // namespace

bool thread_gets(std::size_t bytes) noexcept {
  void* volatile room = std::malloc(bytes);  // volatile: a pair that does nothing is left out else
  std::free(room);
  return room != nullptr;
}

bool thread_may_throw() noexcept {
  if (!thread_gets(kToThrow)) return false;
  // Whatever asks for the count of exceptions makes the variables.
  [[maybe_unused]] const volatile int made = std::uncaught_exceptions();
  return true;
}

}  // namespace hugectr
