// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/device/stream.hpp"

namespace hugectr {

/// Seconds that a stream spends in each stage of its rounds, on the clock of its device. Stamping
/// never waits: the marks of a round are read when they are asked for, or long after it is done.
class StageClock {
 public:
  /// Names of the stages of a round, in their order.
  explicit StageClock(std::vector<std::string> stages);
  ~StageClock();

  /// Begins a round here in the stream's work.
  void begin(Stream& stream);
  /// What was submitted since the last stamp was the next stage of the round.
  void end_stage(Stream& stream);
  /// Seconds in each stage since the last call, and as "idle" those between the end of a round and
  /// the begin of the next. Waits for the work stamped so far.
  std::vector<std::pair<std::string, double>> take();

 private:
  /// Rounds whose marks are not read yet; more than a stream ever has in its queue.
  static constexpr std::size_t kRounds = 64;
  struct Round {
    std::vector<std::unique_ptr<TimeMark>> marks;
    std::size_t stamped = 0;  ///< 0: read, or never used
  };
  Round& round(std::size_t number) { return rounds_[number % kRounds]; }
  void stamp(Stream& stream, Round& round);
  /// Adds up the oldest round that was not read.
  void read_oldest();

  std::vector<std::string> stages_;
  std::vector<double> seconds_;  ///< one a stage, then idle
  std::array<Round, kRounds> rounds_;
  std::size_t begun_ = 0, read_ = 0;
  std::unique_ptr<TimeMark> last_end_;  ///< of the round read last, if has_last_end_
  bool has_last_end_ = false;
};

}  // namespace hugectr
