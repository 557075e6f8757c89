// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/fork.hpp"

namespace hugectr {

/// Threads that end together: the only place of the core that starts any.
///
/// Make it the last member of its owner. Then whatever throws, the constructor of the owner
/// included, the threads that run are stopped and waited for while all that they use is there.
class HCTR_API ThreadGroup {
 public:
  /// `stop` makes the bodies of all threads return, also of those that have yet to begin. It may
  /// not throw, and may be called when there is no thread.
  explicit ThreadGroup(std::function<void()> stop);
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  /// Starts a thread; debuggers and the log show the first 15 letters of its name. The body keeps
  /// its errors for those who wait for it: one that gets out is logged, and the thread is gone.
  /// Throws OutOfMemory that says what is short, also where the thread has no memory to throw an
  /// exception with; the other threads go on. The group is still in use until this has returned: a
  /// body that lets go of its owner waits for that.
  void start(const std::string& name, std::function<void()> body);
  /// Stops and waits for all threads; start() may follow. In a forked child, which has no such
  /// threads, nothing is waited for.
  void join();
  std::size_t size() const { return threads_.size(); }

 private:
  std::function<void()> stop_;
  MadeIn made_in_;
  std::vector<std::thread> threads_;
};

/// Runs `end`, which may join groups: here, or, in a thread that a group has started, which can not
/// wait for itself, in a thread of its own. A garbage collector calls destructors in whatever
/// thread asks for memory, those that read in Python among them.
HCTR_API void run_outside_of_groups(std::function<void()> end) noexcept;
template <class T>
void delete_outside_of_groups(T* it) noexcept {
  run_outside_of_groups([it] { delete it; });
}

/// Why `what` could not be started, with what this process uses of the limits that it may have met.
HCTR_API std::string thread_shortage(const std::string& what, const std::string& cause);
/// The same for memory that `what` did not get.
HCTR_API std::string memory_shortage(const std::string& what);

}  // namespace hugectr
