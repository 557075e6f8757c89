// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/bad_data_limit.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/process_agreement.hpp"

namespace hugectr {

void BadDataLimit::add(const CSRChunk& whole) {
  samples_ += whole.samples + whole.lost;
  bad_ += whole.skipped + whole.lost;
  pass_over_ |= whole.next.epoch > epoch_;
  if (!whole.first_damage.empty() && reasons_.size() < kReasons) {
    reasons_.push_back(whole.first_damage);
  }
  check();
}

void BadDataLimit::end(std::uint64_t lost) {
  samples_ += lost;
  bad_ += lost;
  pass_over_ = true;
  check();
}

void BadDataLimit::check() const {
  if (bad_ == 0 || most_ == kNone) return;
  const bool none_counts = bad_ == samples_ && (pass_over_ || samples_ >= kFewSamplesOfNone);
  const std::uint64_t of = pass_over_ ? samples_ : std::max(samples_, kFewSamples);
  if (!none_counts && static_cast<double>(bad_) <= most_ * static_cast<double>(of)) return;
  std::string text = concat(bad_, " of the first ", samples_, " samples are bad data (",
                            100.0 * static_cast<double>(bad_) / static_cast<double>(samples_),
                            " %), max_bad_share allows ", 100.0 * most_, " %");
  for (std::size_t i = 0; i < reasons_.size(); ++i) {
    text += concat(i == 0 ? "; first reasons: " : " | ", reasons_[i]);
  }
  text +=
      "; correct the settings or the data, or allow more with DataReaderParams(max_bad_share=...)";
  throw PlacedDataError(text, reasons_.empty() ? 1 : 0);
}

}  // namespace hugectr
