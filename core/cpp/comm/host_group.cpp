// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/host_group.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"

namespace hugectr {
namespace {

constexpr std::array kCollectives{"all_reduce", "reduce_scatter", "all_gather",
                                  "all_to_all", "broadcast",      "barrier"};

bool is(const CollectiveCall& call, const char* collective) {
  return std::strcmp(call.collective, collective) == 0;
}

/// Every rank checks all calls, so that all of them throw the same error or none does.
void check_calls(const std::vector<CollectiveCall>& calls) {
  for (std::size_t r = 1; r < calls.size(); ++r) check_agreement(0, calls[0], r, calls[r]);
  if (calls[0].send_counts.empty()) return;
  for (std::size_t a = 0; a < calls.size(); ++a) {
    for (std::size_t b = a; b < calls.size(); ++b) check_agreement(a, calls[a], b, calls[b]);
  }
}

/// A call as numbers, the same count of them for every call of a job; buffers stay behind.
std::vector<std::uint64_t> to_numbers(const CollectiveCall& call, std::size_t ranks) {
  const auto* const name = std::find_if(kCollectives.begin(), kCollectives.end(),
                                        [&](const char* known) { return is(call, known); });
  std::vector<std::uint64_t> numbers{static_cast<std::uint64_t>(name - kCollectives.begin()),
                                     static_cast<std::uint64_t>(call.in.dtype), call.in.size(),
                                     call.root, call.send_counts.empty() ? 0u : 1u};
  for (const auto* counts : {&call.send_counts, &call.receive_counts}) {
    for (std::size_t r = 0; r < ranks; ++r) numbers.push_back(counts->empty() ? 0 : (*counts)[r]);
  }
  return numbers;
}

CollectiveCall from_numbers(const std::uint64_t* numbers, std::size_t ranks) {
  CollectiveCall call;
  HCTR_CHECK(numbers[0] < kCollectives.size(), "another process runs another version of hugectr");
  call.collective = kCollectives[numbers[0]];
  call.in.dtype = static_cast<TensorScalarType>(numbers[1]);
  call.in.shape = {numbers[2]};
  call.root = numbers[3];
  if (numbers[4] != 0) {
    const std::uint64_t* const counts = numbers + 5;
    call.send_counts.assign(counts, counts + ranks);
    call.receive_counts.assign(counts + ranks, counts + 2 * ranks);
  }
  return call;
}

}  // namespace

HostGroup::HostGroup(JobRanks job)
    : job_(checked(std::move(job))),
      process_(job_.processes ? job_.processes->rank() : 0),
      ranks_of_(job_.processes ? job_.processes->size() : 1),
      rendezvous_(static_cast<std::size_t>(
          std::count(job_.process_of_rank.begin(), job_.process_of_rank.end(), process_))),
      calls_(job_.process_of_rank.size()) {
  for (std::size_t r = 0; r < size(); ++r) ranks_of_[job_.process_of_rank[r]].push_back(r);
}

JobRanks HostGroup::checked(JobRanks job) {
  HCTR_CHECK(!job.process_of_rank.empty(), "a job needs at least one device");
  const std::size_t processes = job.processes ? job.processes->size() : 1;
  for (std::size_t p = 0; p < processes; ++p) {
    const auto& of = job.process_of_rank;
    HCTR_CHECK(std::find(of.begin(), of.end(), p) != of.end(), "process ", p, " has no device");
  }
  for (const std::size_t p : job.process_of_rank) {
    HCTR_CHECK(p < processes, "a device belongs to process ", p, " of ", processes);
  }
  return job;
}

HCTR_MAY_BE_UNWOUND void HostGroup::run(std::size_t rank, const CollectiveCall& call,
                                        const std::function<void(const View&)>& work) {
  struct Part {
    Rendezvous& rendezvous;
    ~Part() { rendezvous.part(); }
  };
  calls_[rank] = call;
  rendezvous_.meet();
  if (spans_processes()) {
    {
      const Part part{rendezvous_};
      if (rank == local_ranks().front()) {
        try {
          error_ = nullptr;
          exchange();
        }
        // This thread does not come to the next meeting: the others need not wait for it.
        HCTR_CATCH_FORCED_UNWIND(abort(kThreadWasEnded))
        catch (...) {
          error_ = std::current_exception();
        }
      }
    }
    rendezvous_.meet();
  }
  const Part part{rendezvous_};
  if (error_) std::rethrow_exception(error_);
  if (!spans_processes()) check_calls(calls_);
  work({*this, rank});
}

void HostGroup::abort(const std::string& reason) noexcept {
  rendezvous_.abort(reason);
  if (job_.processes) job_.processes->abort_from_here(reason);
}

void HostGroup::renew() {
  if (spans_processes()) {
    throw CommError(
        "a job of several processes can not go on after a failed collective: start it again from "
        "its last checkpoint");
  }
  rendezvous_.renew();
}

bool HostGroup::same_for_all() const {
  const CollectiveCall& call = calls_[local_ranks().front()];
  return !is(call, "reduce_scatter") && !is(call, "all_to_all");
}

HostGroup::Piece HostGroup::piece(std::size_t source, std::size_t target) const {
  const CollectiveCall& call = calls_[source];
  if (is(call, "barrier") || (is(call, "broadcast") && call.root != source)) return {};
  if (is(call, "reduce_scatter")) {
    const std::size_t count = call.in.size() / size();
    return {target * count, count};
  }
  if (is(call, "all_to_all")) {
    std::size_t offset = 0;
    for (std::size_t r = 0; r < target; ++r) offset += call.send_counts[r];
    return {offset, call.send_counts[target]};
  }
  return {0, call.in.size()};
}

const char* HostGroup::piece_of(std::size_t source, std::size_t target) const {
  if (job_.process_of_rank[source] != process_) {
    return received_.data() + place_[source][same_for_all() ? 0 : target];
  }
  const TensorRef& in = calls_[source].in;
  return static_cast<const char*>(in.data) + piece(source, target).offset * size_of(in.dtype);
}

void HostGroup::exchange() {
  exchange_calls();
  check_calls(calls_);
  if (!is(calls_[local_ranks().front()], "barrier")) exchange_data();
}

void HostGroup::exchange_calls() {
  const std::size_t length = 5 + 2 * size();
  std::vector<std::uint64_t> own;
  for (const std::size_t r : local_ranks()) {
    const auto numbers = to_numbers(calls_[r], size());
    own.insert(own.end(), numbers.begin(), numbers.end());
  }
  std::vector<std::uint64_t> out;
  std::vector<std::size_t> send, receive;
  for (const auto& ranks : ranks_of_) {
    out.insert(out.end(), own.begin(), own.end());
    send.push_back(own.size() * sizeof(std::uint64_t));
    receive.push_back(ranks.size() * length * sizeof(std::uint64_t));
  }
  std::vector<std::uint64_t> in(size() * length);
  job_.processes->all_to_all(out.data(), send, in.data(), receive);
  const std::uint64_t* next = in.data();
  for (std::size_t p = 0; p < ranks_of_.size(); ++p) {
    for (const std::size_t r : ranks_of_[p]) {
      if (p != process_) calls_[r] = from_numbers(next, size());
      next += length;
    }
  }
}

void HostGroup::exchange_data() {
  const std::size_t bytes = size_of(calls_[local_ranks().front()].in.dtype);
  const auto targets_in = [&](std::size_t process) {
    std::vector<std::size_t> targets = ranks_of_[process];
    if (same_for_all()) targets.resize(1);
    return targets;
  };
  std::vector<std::size_t> send(ranks_of_.size()), receive(ranks_of_.size());
  sent_.clear();
  place_.assign(size(), std::vector<std::size_t>(size()));
  std::size_t received = 0;
  for (std::size_t p = 0; p < ranks_of_.size(); ++p) {
    if (p == process_) continue;
    const std::size_t sent_before = sent_.size(), received_before = received;
    for (const std::size_t source : local_ranks()) {
      for (const std::size_t target : targets_in(p)) {
        const Piece part = piece(source, target);
        if (part.count == 0) continue;
        const char* const from =
            static_cast<const char*>(calls_[source].in.data) + part.offset * bytes;
        sent_.insert(sent_.end(), from, from + part.count * bytes);
      }
    }
    for (const std::size_t source : ranks_of_[p]) {
      for (const std::size_t target : targets_in(process_)) {
        place_[source][same_for_all() ? 0 : target] = received;
        received += piece(source, target).count * bytes;
      }
    }
    send[p] = sent_.size() - sent_before;
    receive[p] = received - received_before;
  }
  if (received_.size() < received) received_.resize(received);
  job_.processes->all_to_all(sent_.data(), send, received_.data(), receive);
}

}  // namespace hugectr
