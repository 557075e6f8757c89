// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <span>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

namespace hugectr {

/// The stream beside a step on which gradients are summed over devices, and tables updated, while
/// backward goes on. All devices put the same collectives there in the same order; its communicator
/// is used by nothing else.
///
///   main:  backward ......., last sums | join | update of dense weights | join_end | next step
///   lane:    sums of dense gradients, gradients of tables | update of tables | vectors of the next
class HCTR_API ExchangeLane {
 public:
  /// `context` has the lane's stream and communicator; the events are of its device.
  ExchangeLane(const OpContext& context, std::unique_ptr<Event> written,
               std::unique_ptr<Event> summed, std::unique_ptr<Event> ended);

  /// Whether records submitted from now on run, or nothing needs what they would sum.
  void set_used(bool used) { used_ = used; }
  bool used() const { return used_; }
  /// For ops that run here.
  const OpContext& context() const { return context_; }
  /// Submits records behind all that `main` has been given so far.
  void submit(Stream& main, std::span<const OpRecord> records);
  /// The same for what `work` puts on the lane's stream, used or not. Its collectives fail where
  /// `main` has failed by then: an event is reached behind work that failed, too, and a table would
  /// be updated with gradients that were never made.
  void submit(Stream& main, const std::function<void()>& work);
  /// Puts work without collectives behind all that was submitted, which is all that it waits for.
  void end_with(const std::function<void()>& work);
  /// What `main` is given from now on waits for all submitted here.
  void join(Stream& main);
  /// And for what the lane ends with.
  void join_end(Stream& main);

 private:
  void submit_behind(Stream& main, const std::function<void()>& work);

  OpContext context_;
  std::unique_ptr<Event> written_, summed_, ended_;
  bool used_ = true, pending_ = false, ends_ = false;
};

}  // namespace hugectr
