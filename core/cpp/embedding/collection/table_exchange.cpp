// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/collection/table_exchange.hpp"

#include <exception>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/collection/caller_order.hpp"

namespace hugectr {
namespace {

/// Numbers that go to each process or come from it, `width` a row of tables first .. end - 1.
std::vector<std::size_t> numbers_of(const ProcessRows& rows, std::size_t first, std::size_t end,
                                    std::size_t width) {
  std::vector<std::size_t> numbers;
  for (const std::int64_t n : rows.of_processes(first, end)) {
    numbers.push_back(static_cast<std::size_t>(n) * width);
  }
  return numbers;
}

}  // namespace

TableExchange::TableExchange(TableSharing& sharing, SharedCommunicator& communicator)
    : sharing_(sharing),
      compute_(sharing.gpu().compute_stream()),
      communicator_(communicator),
      thread_("hctr-exchange") {}

TableExchange::~TableExchange() {
  try {
    thread_.wait();
  } catch (const std::exception&) {  // nobody is there to hear it
  }
  try {
    compute_.synchronize();
  } catch (const std::exception&) {
  }
}

void TableExchange::begin(std::uintptr_t stream,
                          std::function<void(std::uintptr_t own, Place&)> work) {
  HCTR_CHECK(!begun_, "the exchange before has not been settled");
  follow_caller(compute_, stream);
  // The order of its caller's stream is given already: what that gets meanwhile is not waited for.
  const auto own = reinterpret_cast<std::uintptr_t>(compute_.native());
  begun_ = true;
  try {
    thread_.begin([this, own, place = communicator_.take_place(), work = std::move(work)] {
      try {
        work(own, *place);
      } catch (const std::exception& error) {
        communicator_.abort(error.what());  // the others wait for what does not come
        throw;
      }
    });
  } catch (...) {
    begun_ = false;
    communicator_.abort("a process has no thread for its exchange");
    throw;
  }
}

void TableExchange::carry(const Messages& messages, const ProcessRows& sent,
                          const ProcessRows& taken, std::vector<CollectiveCall> more,
                          Place& place) {
  const std::vector<TableSharing::Group> groups = sharing_.groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto [d, first, end] = groups[g];
    more.push_back(all_to_all_call(messages.out[g], numbers_of(sent, first, end, d),
                                   messages.came[g], numbers_of(taken, first, end, d)));
  }
  place.wait().together(more, compute_);
  // There calls are made when their stream comes to them: those of others must find them made.
  if (compute_.device().type == DeviceType::Cpu) compute_.synchronize();
  place.pass();
}

void TableExchange::give(const SharedBatch& batch, Messages messages, std::uintptr_t stream) {
  begin(stream, [this, &batch, messages = std::move(messages)](std::uintptr_t own, Place& place) {
    const SettledOnError settled(compute_);
    sharing_.give(batch, messages.out, own);
    carry(messages, batch.returned, batch.asked, {}, place);
  });
}

void TableExchange::accumulate(const SharedBatch& batch, Messages messages, std::uintptr_t stream,
                               KeysAhead ahead) {
  if (ahead.batch != nullptr) follow_caller(compute_, ahead.stream);
  begin(stream,
        [this, &batch, messages = std::move(messages), ahead](std::uintptr_t own, Place& place) {
          const SettledOnError settled(compute_);
          std::vector<CollectiveCall> keys;
          if (ahead.batch != nullptr) {
            const auto numbers = [](const ProcessRows& rows) {
              return numbers_of(rows, 0, rows.tables(), 1);
            };
            keys.push_back(all_to_all_call(ahead.out, numbers(ahead.batch->wanted), ahead.came,
                                           numbers(ahead.batch->given)));
          }
          carry(messages, batch.wanted, batch.given, std::move(keys), place);
          sharing_.accumulate(batch, messages.came, own);
          if (ahead.batch != nullptr) plan(*ahead.batch, ahead.came);
        });
}

void TableExchange::plan(SharedBatch& batch, const TensorRef& came) {
  // Of no caller's order: none is waited for, and none has to wait.
  Stream& stream = sharing_.gpu().plan_stream();
  follow_caller(stream, reinterpret_cast<std::uintptr_t>(compute_.native()));
  sharing_.plan(batch, came, reinterpret_cast<std::uintptr_t>(stream.native()), true);
}

void TableExchange::settle(std::uintptr_t stream) {
  if (!std::exchange(begun_, false)) return;
  thread_.wait();
  precede_caller(compute_, stream);
}

}  // namespace hugectr
