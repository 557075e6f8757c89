// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/stream.hpp"

#include <chrono>
#include <future>

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
    HCTR_CHECK(at_.valid() && before->at_.valid(), "a time mark was never stamped");
    return std::chrono::duration<double>(at_.get() - before->at_.get()).count();
  }

  void stamp(Stream& stream) {
    const auto reached = std::make_shared<std::promise<Clock::time_point>>();
    at_ = reached->get_future().share();
    // A stream that failed skips its tasks, but whoever reads the mark must not wait for ever.
    stream.submit_or_else([reached] { reached->set_value(Clock::now()); },
                          [reached](const std::string&) { reached->set_value(Clock::now()); });
  }

 private:
  std::shared_future<Clock::time_point> at_;
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
