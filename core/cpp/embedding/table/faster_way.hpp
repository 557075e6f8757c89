// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace hugectr {

/// Which of two ways a loop should do the same thing, found by trying: its turns are timed with
/// one, then with the other, and the one with the shorter turns is kept for a long while before
/// both are tried again. What decides is the whole turn, whatever it waits for.
class FasterWay {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kFirst = 256;   ///< turns before anything is tried
  static constexpr std::size_t kTried = 40;    ///< timed turns of each way
  static constexpr std::size_t kSettling = 8;  ///< turns that are not timed, after each change
  static constexpr std::size_t kKept = 8192;
  /// What the second way must gain: a change for nothing is none.
  static constexpr double kLeastGain = 0.01;

  /// Whether this turn is the second way's. Once a turn, always at the same point.
  bool second(Clock::time_point now) {
    if (last_ && stage_ != Stage::Kept && turns_ > kSettling) {
      times_[stage_ == Stage::Second].push_back(now - *last_);
    }
    last_ = now;
    if (++turns_ > turns_of(stage_)) next_stage();
    return stage_ == Stage::Second || (stage_ == Stage::Kept && second_is_faster_);
  }
  /// What comes next is no turn like others: the time until then is none.
  void interrupt() { last_.reset(); }

 private:
  enum class Stage { Kept, First, Second };

  std::size_t turns_of(Stage stage) const {
    if (stage == Stage::Kept) return tried_before_ ? kKept : kFirst;
    return kSettling + kTried;
  }
  void next_stage() {
    turns_ = 1;
    switch (stage_) {
      case Stage::Kept:
        for (auto& times : times_) times.clear();
        stage_ = Stage::First;
        break;
      case Stage::First:
        stage_ = Stage::Second;
        break;
      case Stage::Second:
        second_is_faster_ = median(times_[1]) < (1 - kLeastGain) * median(times_[0]);
        tried_before_ = true;
        stage_ = Stage::Kept;
    }
  }
  static double median(std::vector<Clock::duration>& times) {
    if (times.empty()) return 0.0;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return std::chrono::duration<double>(*middle).count();
  }

  Stage stage_ = Stage::Kept;
  std::size_t turns_ = 0;  ///< of the stage
  bool tried_before_ = false, second_is_faster_ = false;
  std::optional<Clock::time_point> last_;
  std::array<std::vector<Clock::duration>, 2> times_;
};

}  // namespace hugectr
