// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/stream.hpp"

#include <atomic>
#include <chrono>
#include <memory>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

using Clock = std::chrono::steady_clock;

/// The time at which the stream came to the mark, on the clock of the host.
class HostTimeMark final : public TimeMark {
 public:
  double seconds_since(TimeMark& earlier) override {
    auto* const before = dynamic_cast<HostTimeMark*>(&earlier);
    HCTR_CHECK(before != nullptr, "time marks of two kinds of devices have no distance");
    HCTR_CHECK(reached_ && before->reached_, "a time mark was never stamped");
    return std::chrono::duration<double>(reached_->get() - before->reached_->get()).count();
  }

  void stamp(Stream& stream) {
    reached_ = std::make_shared<Reached>();
    // A stream that failed skips its tasks, but whoever reads the mark must not wait for ever.
    stream.submit_or_else([reached = reached_] { reached->set(); },
                          [reached = reached_](const std::string&) { reached->set(); });
  }

 private:
  /// Unlike a promise it asks for no memory: that of a task which was dropped for want of it ended
  /// the program.
  class Reached {
   public:
    void set() {
      at_.store(Clock::now().time_since_epoch().count());
      at_.notify_all();
    }
    Clock::duration get() const {
      at_.wait(kNotYet);
      return Clock::duration(at_.load());
    }

   private:
    static constexpr Clock::rep kNotYet = -1;
    std::atomic<Clock::rep> at_{kNotYet};
  };

  std::shared_ptr<Reached> reached_;  ///< null until it is stamped
};

}  // namespace

Event::~Event() = default;
CapturedWork::~CapturedWork() = default;
TimeMark::~TimeMark() = default;
Stream::~Stream() = default;

void Stream::submit_or_else(std::function<void()> task, std::function<void(const std::string&)>) {
  submit(std::move(task));
}

std::unique_ptr<CapturedWork> Stream::capture(const std::function<void()>&) { return nullptr; }

std::unique_ptr<TimeMark> Stream::create_time_mark() { return std::make_unique<HostTimeMark>(); }

void Stream::stamp(TimeMark& mark) {
  auto* const host = dynamic_cast<HostTimeMark*>(&mark);
  HCTR_CHECK(host != nullptr, "a stream stamps time marks of its own kind of device only");
  host->stamp(*this);
}

}  // namespace hugectr
