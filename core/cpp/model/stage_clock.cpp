// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/stage_clock.hpp"

#include "core/cpp/base/error.hpp"

namespace hugectr {

StageClock::StageClock(std::vector<std::string> stages)
    : stages_(std::move(stages)), seconds_(stages_.size() + 1) {}

StageClock::~StageClock() = default;

void StageClock::begin(Stream& stream) {
  if (begun_ - read_ == kRounds) read_oldest();
  Round& next = round(begun_++);
  next.stamped = 0;
  stamp(stream, next);
}

void StageClock::end_stage(Stream& stream) {
  HCTR_CHECK(begun_ > read_, "a stage ends in a round that did not begin");
  Round& now = round(begun_ - 1);
  HCTR_CHECK(now.stamped <= stages_.size(), "a round has ", stages_.size(), " stages");
  stamp(stream, now);
}

void StageClock::stamp(Stream& stream, Round& now) {
  if (now.marks.size() == now.stamped) now.marks.push_back(nullptr);
  std::unique_ptr<TimeMark>& mark = now.marks[now.stamped++];
  if (!mark) mark = stream.create_time_mark();
  stream.stamp(*mark);
}

void StageClock::read_oldest() {
  Round& oldest = round(read_++);
  if (has_last_end_) seconds_.back() += oldest.marks[0]->seconds_since(*last_end_);
  for (std::size_t i = 1; i < oldest.stamped; ++i) {
    seconds_[i - 1] += oldest.marks[i]->seconds_since(*oldest.marks[i - 1]);
  }
  std::swap(last_end_, oldest.marks[oldest.stamped - 1]);
  has_last_end_ = true;
}

std::vector<std::pair<std::string, double>> StageClock::take() {
  while (read_ < begun_) read_oldest();
  std::vector<std::pair<std::string, double>> result;
  for (std::size_t i = 0; i < stages_.size(); ++i) result.emplace_back(stages_[i], seconds_[i]);
  result.emplace_back("idle", seconds_.back());
  seconds_.assign(seconds_.size(), 0.0);
  // What passes until the next round has to do with who asked, not with the stream.
  has_last_end_ = false;
  return result;
}

}  // namespace hugectr
