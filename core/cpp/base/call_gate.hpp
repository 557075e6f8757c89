// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <thread>

namespace hugectr {

/// The way from threads of the core into an interpreter that may end before them. A thread that
/// asks an ending interpreter for its lock is unwound or put to sleep for good wherever it stands,
/// so nobody may ask any more: the gate is closed first, and closing waits for those inside.
///
/// Atomics only: a child of fork() finds no lock of a thread that it does not have.
class CallGate {
 public:
  bool enter() {
    inside_.fetch_add(1);
    if (!closed_.load()) return true;
    inside_.fetch_sub(1);
    return false;
  }
  void leave() { inside_.fetch_sub(1); }

  /// Nobody enters from now on. False when somebody is inside even after `seconds`.
  bool close(double seconds) {
    closed_.store(true);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (inside_.load() > 0) {
      if (std::chrono::steady_clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  /// Threads that Python does not know yet enter one by one: each looks for the memory that Python
  /// takes to know it, and no other may take that meanwhile.
  void begin_alone() {
    while (alone_.exchange(true)) alone_.wait(true);
  }
  void end_alone() {
    alone_.store(false);
    alone_.notify_one();
  }

  /// In the child of fork(): those who were inside are not there.
  void forget() {
    inside_.store(0);
    alone_.store(false);
  }

  /// Of this process; never destroyed, as threads outlive statics.
  static CallGate& to_interpreter() {
    static auto* const gate = new CallGate;
    return *gate;
  }

 private:
  std::atomic<int> inside_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> alone_{false};
};

/// A visit to the interpreter, if there may be one.
class InterpreterVisit {
 public:
  InterpreterVisit() : allowed_(CallGate::to_interpreter().enter()) {}
  ~InterpreterVisit() {
    if (allowed_) CallGate::to_interpreter().leave();
  }
  InterpreterVisit(const InterpreterVisit&) = delete;
  InterpreterVisit& operator=(const InterpreterVisit&) = delete;
  explicit operator bool() const { return allowed_; }

  static constexpr const char* kRefusal =
      "the program is ending: Python can not be called any more";

 private:
  const bool allowed_;
};

}  // namespace hugectr
