// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/thread_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"
#include "core/cpp/base/thread_group.hpp"

namespace hugectr {
namespace {

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// How long a thread waits awake before it sleeps. At first about 20 microseconds, longer than the
/// gap between two loops of a step and shorter than anything that would be missed by others. After
/// a sleep that was hardly longer than waking up takes, the next is put off for 160: so it is
/// between predictions of few samples, one after the other. When that was in vain, it is as before.
class Patience {
 public:
  /// Turns of a loop until done() holds, or none is left: then false.
  template <class Done>
  bool wait(const Done& done) const {
    for (int turns = turns_; turns > 0; --turns) {
      if (done()) return true;
      pause();
    }
    return false;
  }
  /// Sleeps by calling sleep().
  template <class Sleep>
  void sleep(const Sleep& sleep) {
    const bool in_vain = turns_ == kManyTurns;
    const auto begin = std::chrono::steady_clock::now();
    sleep();
    const bool was_short = std::chrono::steady_clock::now() - begin < kShortSleep;
    turns_ = was_short && !in_vain ? kManyTurns : kFewTurns;
  }
  /// Puts the next sleep off: a loop is said to come.
  void expect() { turns_ = kManyTurns; }

 private:
  static constexpr int kFewTurns = 500, kManyTurns = 5000;
  static constexpr std::chrono::milliseconds kShortSleep{1};
  int turns_ = kFewTurns;
};

/// The lock, waited for awake at first: it is held for some ten instructions, threads that end
/// their parts of a loop at once meet there, and sleeping would take longer than many loops.
std::unique_lock<std::mutex> lock_awake(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  for (int turns = 100; turns > 0 && !lock.owns_lock(); --turns) {
    pause();
    lock.try_lock();
  }
  if (!lock.owns_lock()) lock.lock();
  return lock;
}

std::size_t default_threads() {
  if (const char* text = std::getenv("HUGECTR_NUM_THREADS"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    const long n = std::strtol(text, &end, 10);
    HCTR_CHECK(*end == '\0' && n >= 1 && n <= 4096, "HUGECTR_NUM_THREADS=", text,
               ": give the number of CPU threads, 1 to 4096");
    return static_cast<std::size_t>(n);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

struct ThreadPool::Impl {
  /// One call of run_chunks; lives on the caller's stack until nobody works on it any more.
  struct Loop {
    const ChunkBody* body;
    std::size_t chunks;
    std::atomic<std::size_t> next{0};
    std::atomic<int> workers{0};  ///< pool threads inside work(); joined under the pool's mutex
    std::atomic<bool> failed{false};
    std::exception_ptr error{};  ///< written by the one thread that set `failed`

    bool open() const { return next.load(std::memory_order_relaxed) < chunks; }

    void fail(std::exception_ptr why) noexcept {
      if (!failed.exchange(true)) error = std::move(why);
      next.store(chunks, std::memory_order_relaxed);  // the rest need not run
    }

    /// Runs chunks until none is left; calls done() after each.
    template <class Done>
    HCTR_MAY_BE_UNWOUND void work(const Done& done) {
      for (;;) {
        const std::size_t chunk = next.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= chunks) return;
        try {
          (*body)(chunk);
          done();
        }
        HCTR_CATCH_FORCED_UNWIND(fail(std::make_exception_ptr(DeviceError(kThreadWasEnded))))
        catch (...) {
          fail(std::current_exception());
          return;
        }
      }
    }
  };

  std::mutex mutex;
  std::condition_variable work_ready;  ///< pool threads sleep here
  std::condition_variable loop_left;   ///< callers sleep here until their loop's workers are 0
  std::vector<Loop*> loops;            ///< loops that may have chunks left
  std::atomic<std::uint64_t> posted{0};
  std::atomic<int> sleeping_callers{0};
  int sleeping_threads = 0;
  bool roused = false;        ///< whoever wakes next waits awake; under the mutex
  std::atomic<int> awake{0};  ///< threads that wait and do not sleep
  std::atomic<std::uint64_t> helped{0};
  std::atomic<bool> stop{false};

  ThreadGroup threads{[this] {
    {
      const std::lock_guard lock(mutex);
      stop.store(true);
    }
    work_ready.notify_all();
  }};

  /// Joins the oldest loop with chunks left; needs the mutex.
  Loop* join_loop() {
    for (Loop* loop : loops) {
      if (loop->open()) {
        loop->workers.fetch_add(1, std::memory_order_relaxed);
        return loop;
      }
    }
    return nullptr;
  }

  void leave(Loop* loop) {
    // After this the loop may be gone.
    if (loop->workers.fetch_sub(1) == 1 && sleeping_callers.load() > 0) {
      {
        const std::lock_guard lock(mutex);
      }
      loop_left.notify_all();
    }
  }

  /// Until the pool goes, even when a body has the thread ended: its size is what others count on.
  HCTR_MAY_BE_UNWOUND void thread_main() {
    try {
      work_off();
    }
    HCTR_CATCH_FORCED_UNWIND(thread_main())
  }

  void work_off() {
    Patience patience;
    for (;;) {
      const std::uint64_t seen = posted.load(std::memory_order_acquire);
      Loop* loop;
      {
        const std::unique_lock lock = lock_awake(mutex);
        loop = join_loop();
      }
      if (loop != nullptr) {
        struct Visit {
          Impl& pool;
          Loop* loop;
          ~Visit() { pool.leave(loop); }
        };
        const Visit visit{*this, loop};
        loop->work([this] { helped.fetch_add(1, std::memory_order_relaxed); });
        continue;
      }
      const auto called = [&] { return posted.load() != seen || stop.load(); };
      awake.fetch_add(1, std::memory_order_relaxed);
      const bool was_called = patience.wait(called);
      awake.fetch_sub(1, std::memory_order_relaxed);
      if (!was_called) {
        std::unique_lock lock(mutex);
        ++sleeping_threads;
        patience.sleep([&] { work_ready.wait(lock, [&] { return called() || roused; }); });
        --sleeping_threads;
        if (roused) {
          roused = false;
          patience.expect();
        }
      }
      if (stop.load()) return;
    }
  }

  void run(std::size_t chunks, const ChunkBody& body) {
    Loop loop{&body, chunks};
    std::size_t wake;
    {
      const std::unique_lock lock = lock_awake(mutex);
      loops.push_back(&loop);
      posted.fetch_add(1);
      // Those that wait awake come by themselves, also those that are about to sleep.
      const std::size_t coming = std::max(0, awake.load(std::memory_order_relaxed));
      wake = std::min<std::size_t>(sleeping_threads, chunks - 1 - std::min(chunks - 1, coming));
    }
    for (std::size_t i = 0; i < wake; ++i) work_ready.notify_one();
    {
      struct End {
        Impl& pool;
        Loop& loop;
        ~End() { pool.end(loop); }
      };
      const End end{*this, loop};
      loop.work([] {});
    }
    if (loop.error) std::rethrow_exception(loop.error);
  }

  void rouse() {
    {
      const std::lock_guard lock(mutex);
      if (sleeping_threads == 0) return;
      roused = true;
    }
    work_ready.notify_one();
  }

  /// The loop is done: nobody works on it any more, and nobody is going to.
  void end(Loop& loop) {
    {
      const std::unique_lock lock = lock_awake(mutex);  // from here on nobody can join
      loops.erase(std::find(loops.begin(), loops.end(), &loop));
    }
    thread_local Patience patience;
    const auto left = [&] { return loop.workers.load() == 0; };
    if (!patience.wait(left)) {
      std::unique_lock lock(mutex);
      sleeping_callers.fetch_add(1);
      patience.sleep([&] { loop_left.wait(lock, left); });
      sleeping_callers.fetch_sub(1);
    }
  }
};

ThreadPool::ThreadPool(std::size_t threads) : impl_(new Impl) {
  const std::size_t total = threads > 0 ? threads : default_threads();
  for (std::size_t i = 1; i < total; ++i) {
    impl_->threads.start(concat("hctr-pool-", i), [impl = impl_.get()] { impl->thread_main(); });
  }
}

ThreadPool::~ThreadPool() = default;

std::size_t ThreadPool::awake() const {
  return static_cast<std::size_t>(impl_->awake.load(std::memory_order_relaxed));
}

void ThreadPool::rouse() {
  if (made_in_.this_process()) impl_->rouse();
}

std::uint64_t ThreadPool::helped() const { return impl_->helped.load(std::memory_order_relaxed); }

std::size_t ThreadPool::size() const { return impl_->threads.size() + 1; }

void ThreadPool::run_chunks(std::size_t chunks, const ChunkBody& body) {
  if (!made_in_.this_process()) {
    throw DeviceError(
        "the thread pool belongs to the process that this one was forked from, and its threads are "
        "there: make a new model here");
  }
  if (chunks <= 1 || impl_->threads.size() == 0) {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) body(chunk);
    return;
  }
  impl_->run(chunks, body);
}

}  // namespace hugectr
