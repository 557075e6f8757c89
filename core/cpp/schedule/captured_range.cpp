// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/captured_range.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/log.hpp"
#include "core/cpp/device/op_timeline.hpp"

namespace hugectr {

CapturedRange::CapturedRange(const OpContext& context, std::span<const OpRecord> records,
                             std::string name, bool capture, ExchangeLane* lane)
    : context_(context), name_(std::move(name)), lane_(lane) {
  const auto sum_of = [lane](const OpRecord& record) {
    return lane ? record.sum : GradientSum::None;
  };
  for (auto first = records.begin(); first != records.end();) {
    const GradientSum sum = sum_of(*first);
    const bool alone = first->op.submits() || sum != GradientSum::None;
    auto last = std::find_if(first, records.end(), [&](const OpRecord& record) {
      return (record.op.submits() || sum_of(record) != GradientSum::None) != alone ||
             sum_of(record) != sum || (record.needs && &record != &*first);
    });
    const auto completing =
        std::find_if(first, last, [](const OpRecord& record) { return record.completes; });
    if (completing != last) last = completing + 1;
    // A single launch is not made cheaper by capturing it.
    pieces_.push_back({{first, last},
                       capture && !alone && last - first > 1,
                       sum,
                       (last - 1)->completes,
                       first->needs,
                       nullptr});
    first = last;
  }
}

void CapturedRange::run(const std::function<void()>& completed,
                        const std::function<void()>& needed) {
  // Captured pieces have no ops to time.
  const bool replay = warm_ && !context_.stream->timeline();
  for (Piece& piece : pieces_) {
    if (piece.needs && needed) needed();
    if (replay && piece.capture && !piece.work) try_capture(piece);
    if (replay && piece.work) {
      piece.work->replay();
    } else {
      submit(piece);
    }
    if (piece.completes && completed) completed();
  }
  warm_ = true;
}

void CapturedRange::submit(const Piece& piece) const {
  if (piece.sum == GradientSum::Beside) return lane_->submit(*context_.stream, piece.records);
  if (piece.sum == GradientSum::Behind) {
    if (!lane_->used()) return;
    lane_->join(*context_.stream);
  }
  for (const OpRecord& record : piece.records) {
    if (OpTimeline* const timeline = context_.stream->timeline()) timeline->set_layer(record.layer);
    record.op.run_prepared(context_);
  }
}

void CapturedRange::try_capture(Piece& piece) {
  piece.capture = false;
  try {
    piece.work = context_.stream->capture([&] { submit(piece); });
  } catch (const std::exception& e) {
    // An error of the records themselves comes again when they are submitted one by one.
    log(LogLevel::Warning,
        concat(name_, ": its ", piece.records.size(), " ops from '",
               piece.records.front().op.name(), "' of ", piece.records.front().layer,
               " on are launched one by one in every step, because capturing them failed: ",
               e.what()));
  }
}

std::size_t CapturedRange::captured_pieces() const {
  return static_cast<std::size_t>(std::count_if(
      pieces_.begin(), pieces_.end(), [](const Piece& piece) { return piece.work != nullptr; }));
}

}  // namespace hugectr
