// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/op_timeline.hpp"

#include <utility>

namespace hugectr {

OpTimeline::OpTimeline(std::string name, std::shared_ptr<TimeMark> origin)
    : name_(std::move(name)), origin_(std::move(origin)) {}

OpTimeline::~OpTimeline() = default;

void OpTimeline::begin(Stream& stream, const char* op) {
  entries_.push_back(
      {std::exchange(layer_, {}), op, stream.create_time_mark(), stream.create_time_mark()});
  stream.stamp(*entries_.back().begin);
}

void OpTimeline::end(Stream& stream) { stream.stamp(*entries_.back().end); }

std::vector<OpTime> OpTimeline::take() {
  std::vector<OpTime> times;
  for (const Entry& entry : entries_) {
    times.push_back({name_, entry.layer, entry.op, entry.begin->seconds_since(*origin_),
                     entry.end->seconds_since(*entry.begin)});
  }
  entries_.clear();
  return times;
}

}  // namespace hugectr
