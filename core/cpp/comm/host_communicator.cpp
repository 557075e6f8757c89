// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <string_view>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/comm/host_group.hpp"
#include "core/cpp/comm/reduction.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cpp/device/work_counts.hpp"

namespace hugectr {
namespace {

using Call = CollectiveCall;
using View = HostGroup::View;

char* element(const TensorRef& ref, std::size_t index) {
  return static_cast<char*>(ref.data) + index * size_of(ref.dtype);
}

void copy_elements(char* to, const char* from, std::size_t count, TensorScalarType type) {
  if (count > 0 && to != from) std::memcpy(to, from, count * size_of(type));
}

using Work = void (*)(const View&);

void reduce_scatter_work(const View& view) {
  const Call& own = view.own();
  std::vector<const void*> sources;
  for (std::size_t r = 0; r < view.size(); ++r) sources.push_back(view.from(r));
  sum_range(own.in.dtype, sources, {own.out.data}, 0, own.out.size());
}

void all_gather_work(const View& view) {
  const Call& own = view.own();
  const std::size_t n = own.in.size();
  for (std::size_t r = 0; r < view.size(); ++r) {
    copy_elements(element(own.out, r * n), view.from(r), n, own.in.dtype);
  }
}

void all_to_all_work(const View& view) {
  const Call& own = view.own();
  std::size_t to = 0;
  for (std::size_t r = 0; r < view.size(); ++r) {
    const std::size_t n = own.receive_counts[r];
    if (r != view.rank || !own.own_apart) {
      copy_elements(element(own.out, to), view.from(r), n, own.in.dtype);
    }
    to += n;
  }
}

Work work_of(const Call& call) {
  const std::string_view name = call.collective;
  if (name == "reduce_scatter") return &reduce_scatter_work;
  return name == "all_gather" ? &all_gather_work : &all_to_all_work;
}

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::size_t rank, std::shared_ptr<HostGroup> group)
      : rank_(rank), size_(group->size()), group_(std::move(group)) {}

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }

  void all_reduce(TensorRef data, Stream& stream) override {
    check_all_reduce(data);
    // Each rank sums its own part of the elements and writes it to all ranks of its process: one
    // pass, no second copy.
    submit(stream, {.collective = "all_reduce", .in = data}, [](const View& view) {
      if (view.size() == 1) return;
      std::vector<const void*> sources;
      std::vector<void*> targets;
      for (std::size_t r = 0; r < view.size(); ++r) sources.push_back(view.from(r));
      std::size_t own = 0;
      for (const std::size_t r : view.local_ranks()) {
        if (r == view.rank) own = targets.size();
        targets.push_back(view.local_call(r).in.data);
      }
      const std::size_t n = view.own().in.size();
      const std::size_t ranks = targets.size();
      // Parts in whole cache lines, and not so small that ranks meet for a few elements.
      const std::size_t part = std::max<std::size_t>((n + ranks - 1) / ranks, 1024) / 16 * 16 + 16;
      sum_range(view.own().in.dtype, sources, targets, std::min(n, own * part),
                std::min(n, (own + 1) * part));
    });
  }

  void reduce_scatter(TensorRef in, TensorRef out, Stream& stream) override {
    check_reduce_scatter(in, out, size_);
    submit(stream, {.collective = "reduce_scatter", .in = in, .out = out}, &reduce_scatter_work);
  }

  void all_gather(TensorRef in, TensorRef out, Stream& stream) override {
    check_all_gather(in, out, size_);
    submit(stream, {.collective = "all_gather", .in = in, .out = out}, &all_gather_work);
  }

  void all_to_all(TensorRef in, const std::vector<std::size_t>& send_counts, TensorRef out,
                  const std::vector<std::size_t>& receive_counts, Stream& stream) override {
    check_all_to_all(in, send_counts, out, receive_counts, size_);
    submit(stream, all_to_all_call(in, send_counts, out, receive_counts), &all_to_all_work);
  }

  void together(const std::vector<Call>& calls, Stream& stream) override {
    for (const Call& call : calls) check_call(call, size_);
    if (calls.empty()) return;
    submit_work(stream, [rank = rank_, group = group_, calls] {
      for (const Call& call : calls) group->run(rank, call, work_of(call));
    });
  }

  void broadcast(TensorRef data, std::size_t root, Stream& stream) override {
    check_broadcast(data, root, size_);
    submit(stream, {.collective = "broadcast", .in = data, .root = root}, [](const View& view) {
      const Call& own = view.own();
      copy_elements(element(own.in, 0), view.from(own.root), own.in.size(), own.in.dtype);
    });
  }

  void barrier(Stream& stream) override {
    submit(stream, {.collective = "barrier"}, [](const View&) {});
  }

  void abort(const std::string& reason) noexcept override { group_->abort(reason); }
  void leave(const std::string& reason) noexcept override { group_->leave(reason); }
  void renew() override { group_->renew(); }

 private:
  void submit(Stream& stream, Call call, std::function<void(const View&)> work) {
    submit_work(stream, [rank = rank_, group = group_, call = std::move(call),
                         work = std::move(work)] { group->run(rank, call, work); });
  }
  /// Queues what is one collective. A rank whose stream has failed tells the others instead, and so
  /// does one that had no memory to come to them with.
  void submit_work(Stream& stream, std::function<void()> work) {
    count_collective();
    const auto tell = [rank = rank_, group = group_](const std::string& cause) {
      try {
        group->abort(concat("rank ", rank, " failed: ", cause));
      } catch (const std::bad_alloc&) {  // of the text alone
        group->abort(cause);
      }
    };
    stream.submit_or_else(
        [tell, work = std::move(work)] {
          try {
            work();
          } catch (const std::bad_alloc&) {
            tell("out of memory");  // so short a text needs none
            throw;
          }
        },
        tell);
  }

  std::size_t rank_, size_;
  std::shared_ptr<HostGroup> group_;  ///< lives until the last task that uses it has run
};

}  // namespace

Communicator::~Communicator() = default;

std::vector<std::unique_ptr<Communicator>> make_host_communicators(JobRanks job) {
  auto group = std::make_shared<HostGroup>(std::move(job));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (const std::size_t rank : group->local_ranks()) {
    communicators.push_back(std::make_unique<HostCommunicator>(rank, group));
  }
  return communicators;
}

std::vector<std::unique_ptr<Communicator>> make_in_process_communicators(std::size_t count) {
  return make_host_communicators({std::vector<std::size_t>(count, 0), nullptr});
}

}  // namespace hugectr
