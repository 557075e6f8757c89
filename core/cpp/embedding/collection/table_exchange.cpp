// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/collection/table_exchange.hpp"

#include <exception>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/embedding/collection/caller_order.hpp"

namespace hugectr {
namespace {

std::unique_ptr<Communicator> one_device_a_process(DeviceId device,
                                                   std::shared_ptr<IProcessGroup> processes) {
  HCTR_CHECK(processes != nullptr, "tables are exchanged between several processes");
  JobRanks job;
  for (std::size_t p = 0; p < processes->size(); ++p) job.process_of_rank.push_back(p);
  job.processes = std::move(processes);
  return std::move(DeviceBackend::get(device.type).create_communicators({device}, job).front());
}

/// Numbers that go to each process or come from it, of rows of d.
std::vector<std::size_t> numbers_of(const ProcessRows& rows, const TableSharing::Group& group) {
  std::vector<std::size_t> numbers;
  for (const std::int64_t n : rows.of_processes(group.first, group.end)) {
    numbers.push_back(static_cast<std::size_t>(n) * group.d);
  }
  return numbers;
}

}  // namespace

TableExchange::TableExchange(TableSharing& sharing, std::shared_ptr<IProcessGroup> processes)
    : sharing_(sharing),
      compute_(sharing.gpu().compute_stream()),
      communicator_(one_device_a_process(sharing.gpu().device(), std::move(processes))),
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
  // NCCL's end of a communicator waits for the other ranks of the node, and a collection ends when
  // Python's collector finds it: at another time in each process. It ends with the process.
  communicator_->rest();
  static_cast<void>(communicator_.release());
}

void TableExchange::begin(std::uintptr_t stream, std::function<void(std::uintptr_t own)> work) {
  HCTR_CHECK(!begun_, "the exchange before has not been settled");
  follow_caller(compute_, stream);
  // The order of its caller's stream is given already: what that gets meanwhile is not waited for.
  const auto own = reinterpret_cast<std::uintptr_t>(compute_.native());
  begun_ = true;
  try {
    thread_.begin([this, own, work = std::move(work)] {
      try {
        work(own);
      } catch (const std::exception& error) {
        communicator_->abort(error.what());  // the others wait for what does not come
        throw;
      }
    });
  } catch (...) {
    begun_ = false;
    communicator_->abort("a process has no thread for its exchange");
    throw;
  }
}

void TableExchange::carry(const Messages& messages, const ProcessRows& sent,
                          const ProcessRows& taken) {
  const std::vector<TableSharing::Group> groups = sharing_.groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    communicator_->all_to_all(messages.out[g], numbers_of(sent, groups[g]), messages.came[g],
                              numbers_of(taken, groups[g]), compute_);
  }
}

void TableExchange::give(const SharedBatch& batch, Messages messages, std::uintptr_t stream) {
  begin(stream, [this, &batch, messages = std::move(messages)](std::uintptr_t own) {
    const SettledOnError settled(compute_);
    sharing_.give(batch, messages.out, own);
    carry(messages, batch.returned, batch.asked);
  });
}

void TableExchange::accumulate(const SharedBatch& batch, Messages messages, std::uintptr_t stream) {
  begin(stream, [this, &batch, messages = std::move(messages)](std::uintptr_t own) {
    const SettledOnError settled(compute_);
    carry(messages, batch.wanted, batch.given);
    sharing_.accumulate(batch, messages.came, own);
  });
}

void TableExchange::settle(std::uintptr_t stream) {
  if (!std::exchange(begun_, false)) return;
  thread_.wait();
  precede_caller(compute_, stream);
}

}  // namespace hugectr
