// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/exchange_lane.hpp"

#include <string>
#include <utility>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/op_timeline.hpp"

namespace hugectr {

ExchangeLane::ExchangeLane(const OpContext& context, std::unique_ptr<Event> written,
                           std::unique_ptr<Event> summed, std::unique_ptr<Event> ended)
    : context_(context),
      written_(std::move(written)),
      summed_(std::move(summed)),
      ended_(std::move(ended)) {}

void ExchangeLane::submit(Stream& main, std::span<const OpRecord> records) {
  if (!used_) return;
  submit_behind(main, [&] {
    for (const OpRecord& record : records) {
      if (OpTimeline* const timeline = context_.stream->timeline()) {
        timeline->set_layer(record.layer);
      }
      record.op.run_prepared(context_);
    }
  });
}

void ExchangeLane::submit(Stream& main, const std::function<void()>& work) {
  Communicator* const communicator = context_.communicator;
  main.submit_or_else([] {},
                      [communicator](const std::string& reason) { communicator->abort(reason); });
  submit_behind(main, work);
}

void ExchangeLane::submit_behind(Stream& main, const std::function<void()>& work) {
  main.record(*written_);
  context_.stream->wait(*written_);
  work();
  context_.stream->record(*summed_);
  pending_ = true;
}

void ExchangeLane::end_with(const std::function<void()>& work) {
  work();
  context_.stream->record(*ended_);
  ends_ = true;
}

void ExchangeLane::join(Stream& main) {
  if (pending_) main.wait(*summed_);
  pending_ = false;
}

void ExchangeLane::join_end(Stream& main) {
  join(main);
  if (ends_) main.wait(*ended_);
  ends_ = false;
}

}  // namespace hugectr
