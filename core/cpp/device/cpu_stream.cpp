// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/cpu_stream.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"
#include "core/cpp/base/thread_group.hpp"

namespace hugectr {
namespace {

/// One record(): done once the stream has come to it.
struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;

  void set() {
    {
      const std::lock_guard lock(mutex);
      done = true;
    }
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
};

/// A wait for a thread that only the parent has would never end.
void check_made_here(const MadeIn& made_in) {
  if (made_in.this_process()) return;
  throw DeviceError(
      "a stream of a model can not be used in a forked child of the process that made it: its "
      "thread is there; make a new model here");
}

class CpuEvent final : public Event {
 public:
  void synchronize() override {
    check_made_here(made_in_);
    if (const auto mark = last()) mark->wait();
  }
  void set_last(std::shared_ptr<Mark> mark) {
    const std::lock_guard lock(mutex_);
    mark_ = std::move(mark);
  }
  std::shared_ptr<Mark> last() const {
    const std::lock_guard lock(mutex_);
    return mark_;
  }

 private:
  MadeIn made_in_;
  mutable std::mutex mutex_;
  std::shared_ptr<Mark> mark_;
};

CpuEvent& cpu_event(Event& event) {
  auto* const result = dynamic_cast<CpuEvent*>(&event);
  HCTR_CHECK(result != nullptr, "a CPU stream takes events of CPU devices only");
  return *result;
}

/// Whoever is told instead of a task is told in any case.
std::string text_of(const std::exception_ptr& error) noexcept {
  try {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      return cause_of(e);
    }
  } catch (const std::bad_alloc&) {
    return "out of memory";  // so short a text needs none
  } catch (...) {
    return "unknown error";
  }
}

unsigned delay_from_environment() {
  const char* text = std::getenv("HUGECTR_STREAM_DELAY_US");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  HCTR_CHECK(*end == '\0' && value >= 0 && value <= 10'000'000, "HUGECTR_STREAM_DELAY_US=", text,
             ": give microseconds, 0 to 10000000");
  return static_cast<unsigned>(value);
}

/// The stream whose thread this is, if any. Initial-exec: there from the start, without an
/// allocation that could fail.
[[gnu::tls_model("initial-exec")]] thread_local const void* running_stream = nullptr;

class CpuStream final : public Stream {
 public:
  CpuStream(DeviceId device, const std::string& name)
      : device_(device), name_(name), delay_us_(delay_from_environment()), random_(next_seed()) {
    thread_.start(concat(name, "-", device.index), [this] {
      running_stream = this;
      work();
    });
  }
  ~CpuStream() override = default;
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  DeviceId device() const override { return device_; }

  void submit(std::function<void()> task) override { push({std::move(task), {}, false}); }
  void submit_or_else(std::function<void()> task,
                      std::function<void(const std::string&)> skipped) override {
    push({std::move(task), std::move(skipped), false});
  }

  void copy(void* dst, const void* src, std::size_t bytes) override {
    if (bytes == 0 || dst == src) return;
    submit([dst, src, bytes] { std::memmove(dst, src, bytes); });
  }

  void copy_scalars(void* dst, const void* src, std::size_t bytes) override {
    std::array<unsigned char, 256> values;
    HCTR_CHECK(bytes <= values.size(), "copy_scalars takes at most 256 bytes, got ", bytes,
               ": use copy() for more");
    if (bytes == 0) return;
    std::memcpy(values.data(), src, bytes);
    submit([dst, values, bytes] { std::memcpy(dst, values.data(), bytes); });
  }

  void fill_zero(void* dst, std::size_t bytes) override {
    if (bytes == 0) return;
    submit([dst, bytes] { std::memset(dst, 0, bytes); });
  }

  // Marks are set and waited for even when an earlier task failed: other streams go on.
  void record(Event& event) override {
    CpuEvent& recorded = cpu_event(event);
    auto mark = std::make_shared<Mark>();
    push({[mark] { mark->set(); }, {}, true});
    recorded.set_last(std::move(mark));  // last: a mark that no stream has is waited for for ever
  }
  void wait(Event& event) override {
    auto mark = cpu_event(event).last();
    if (mark == nullptr) return;
    push({[mark = std::move(mark)] { mark->wait(); }, {}, true});
  }

  void synchronize() override {
    check_made_here(made_in_);
    HCTR_CHECK(running_stream != this, "a task of stream '", name_,
               "' can not synchronize its own stream");
    std::unique_lock lock(mutex_);
    const std::uint64_t target = pushed_;
    ++synchronizers_;
    finished_.wait(lock, [&] { return completed_ >= target; });
    --synchronizers_;
    if (error_) {
      const std::exception_ptr error = std::exchange(error_, nullptr);
      lock.unlock();
      std::rethrow_exception(error);
    }
  }

  bool has_failed() const override {
    const std::lock_guard lock(mutex_);
    return error_ != nullptr;
  }

 private:
  struct Entry {
    std::function<void()> run;
    std::function<void(const std::string&)> skipped;
    bool always;  ///< runs even after an error
  };

  void push(Entry entry) {
    check_made_here(made_in_);
    bool wake;
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(entry));
      ++pushed_;
      wake = idle_;
    }
    if (wake) queued_.notify_one();
  }

  /// Different streams pause differently; which pauses come is of no importance to results.
  static unsigned next_seed() {
    static std::atomic<unsigned> count{1};
    return 7919u * count.fetch_add(1);
  }

  /// Until the stream goes, even when a task has the thread ended: marks and other tasks wait for
  /// what is queued, so it is done on the way out.
  HCTR_MAY_BE_UNWOUND void work() {
    try {
      work_off();
    }
    HCTR_CATCH_FORCED_UNWIND(done_by_the_end_of_the_thread(); work())
  }

  void work_off() {
    std::unique_lock lock(mutex_);
    for (;;) {
      idle_ = true;
      queued_.wait(lock, [&] { return !queue_.empty() || stop_; });
      idle_ = false;
      if (queue_.empty()) return;
      Entry entry = std::move(queue_.front());
      queue_.pop_front();
      const std::exception_ptr earlier = error_;
      lock.unlock();
      if (delay_us_ > 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % (delay_us_ + 1)));
      }
      const std::exception_ptr error = execute(entry, earlier);
      entry = {};  // frees what the task holds before anybody sees it as done
      lock.lock();
      done(error);  // whoever is told can not have it before this thread has let go of it
    }
  }

  void done_by_the_end_of_the_thread() {
    const std::lock_guard lock(mutex_);
    done(std::make_exception_ptr(DeviceError(kThreadWasEnded)));
  }

  /// The entry that was taken last has ended, with this error, if any. Needs the mutex.
  void done(const std::exception_ptr& error) {
    if (error && !error_) error_ = error;
    ++completed_;
    if (synchronizers_ > 0) finished_.notify_all();
  }

  /// Returns the error of this entry, if any.
  HCTR_MAY_BE_UNWOUND static std::exception_ptr execute(Entry& entry,
                                                        const std::exception_ptr& earlier) {
    try {
      if (!earlier || entry.always) {
        entry.run();
      } else if (entry.skipped) {
        entry.skipped(text_of(earlier));
      }
    }
    HCTR_CATCH_FORCED_UNWIND()
    catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  DeviceId device_;
  std::string name_;
  unsigned delay_us_;
  std::minstd_rand random_;  ///< of the stream's thread
  mutable std::mutex mutex_;
  std::condition_variable queued_, finished_;
  std::deque<Entry> queue_;
  std::uint64_t pushed_ = 0;
  std::uint64_t completed_ = 0;
  int synchronizers_ = 0;
  bool idle_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  MadeIn made_in_;
  ThreadGroup thread_{[this] {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    queued_.notify_one();
  }};
};

}  // namespace

std::unique_ptr<Stream> make_cpu_stream(DeviceId device, const std::string& name) {
  return std::make_unique<CpuStream>(device, name);
}

std::unique_ptr<Event> make_cpu_event() { return std::make_unique<CpuEvent>(); }

}  // namespace hugectr
