// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cpp/schedule/exchange_lane.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

namespace hugectr {

/// Records of a bound schedule that always run one after the other. The first run submits them one
/// by one: libraries make their handles then and kernels get their attributes. The second captures
/// what lies between records that submit by themselves (collectives), and every later one replays
/// that with one call a piece. Sums beside the step go to the exchange lane. A stream that can
/// not capture (the CPU's), or has a timeline, gets the records one by one each time. A capture
/// that fails is logged and not tried again.
class HCTR_API CapturedRange {
 public:
  /// The records and the lane must stay where they are. `lane` null: sums beside the step run in
  /// it. `name` is for the log; `capture` false: never.
  CapturedRange(const OpContext& context, std::span<const OpRecord> records, std::string name,
                bool capture, ExchangeLane* lane = nullptr);

  /// `completed` is called once the record that completes the watched tensors has been submitted,
  /// `needed` before the one that needs those that are waited for is.
  void run(const std::function<void()>& completed = {}, const std::function<void()>& needed = {});
  /// Pieces that are replayed as a whole by now.
  std::size_t captured_pieces() const;

 private:
  struct Piece {
    std::span<const OpRecord> records;
    bool capture = false;
    GradientSum sum = GradientSum::None;
    bool completes = false, needs = false;
    std::unique_ptr<CapturedWork> work;
  };
  void submit(const Piece& piece) const;
  void try_capture(Piece& piece);

  OpContext context_;
  std::string name_;
  ExchangeLane* lane_;
  std::vector<Piece> pieces_;
  bool warm_ = false;
};

}  // namespace hugectr
