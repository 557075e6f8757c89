// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/comm/reduction.hpp"
#include "core/cpp/comm/rendezvous.hpp"
#include "core/cpp/device/stream.hpp"

namespace hugectr {
namespace {

using Call = CollectiveCall;  // all ranks see those of all

/// What the ranks share; lives until the last task that uses it has run.
struct Group {
  explicit Group(std::size_t ranks) : rendezvous(ranks), calls(ranks) {}
  Rendezvous rendezvous;
  std::vector<Call> calls;  ///< [rank], of the collective under way
};

/// Every rank checks all calls, so that all of them throw the same error or none does.
void check_calls(const std::vector<Call>& calls) {
  for (std::size_t r = 1; r < calls.size(); ++r) check_agreement(0, calls[0], r, calls[r]);
  if (calls[0].send_counts.empty()) return;
  for (std::size_t a = 0; a < calls.size(); ++a) {
    for (std::size_t b = a; b < calls.size(); ++b) check_agreement(a, calls[a], b, calls[b]);
  }
}

char* element(const TensorRef& ref, std::size_t index) {
  return static_cast<char*>(ref.data) + index * size_of(ref.dtype);
}

void copy_elements(char* to, const char* from, std::size_t count, TensorScalarType type) {
  if (count > 0 && to != from) std::memcpy(to, from, count * size_of(type));
}

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(std::size_t rank, std::size_t size, std::shared_ptr<Group> group)
      : rank_(rank), size_(size), group_(std::move(group)) {}

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }

  void all_reduce(TensorRef data, Stream& stream) override {
    check_all_reduce(data);
    // Each rank sums its own part of the elements and writes it to all: one pass, no second copy.
    submit(stream, {.collective = "all_reduce", .in = data},
           [rank = rank_, size = size_](const std::vector<Call>& calls) {
             if (size == 1) return;
             std::vector<const void*> sources;
             std::vector<void*> targets;
             for (const Call& call : calls) {
               sources.push_back(call.in.data);
               targets.push_back(call.in.data);
             }
             const std::size_t n = calls[rank].in.size();
             // Parts in whole cache lines, and not so small that ranks meet for a few elements.
             const std::size_t part =
                 std::max<std::size_t>((n + size - 1) / size, 1024) / 16 * 16 + 16;
             sum_range(calls[rank].in.dtype, sources, targets, std::min(n, rank * part),
                       std::min(n, (rank + 1) * part));
           });
  }

  void reduce_scatter(TensorRef in, TensorRef out, Stream& stream) override {
    check_reduce_scatter(in, out, size_);
    submit(stream, {.collective = "reduce_scatter", .in = in, .out = out},
           [rank = rank_](const std::vector<Call>& calls) {
             const Call& own = calls[rank];
             const std::size_t n = own.out.size();
             std::vector<const void*> sources;
             for (const Call& call : calls) sources.push_back(element(call.in, rank * n));
             sum_range(own.in.dtype, sources, {own.out.data}, 0, n);
           });
  }

  void all_gather(TensorRef in, TensorRef out, Stream& stream) override {
    check_all_gather(in, out, size_);
    submit(stream, {.collective = "all_gather", .in = in, .out = out},
           [rank = rank_](const std::vector<Call>& calls) {
             const Call& own = calls[rank];
             const std::size_t n = own.in.size();
             for (std::size_t r = 0; r < calls.size(); ++r) {
               copy_elements(element(own.out, r * n), element(calls[r].in, 0), n, own.in.dtype);
             }
           });
  }

  void all_to_all(TensorRef in, const std::vector<std::size_t>& send_counts, TensorRef out,
                  const std::vector<std::size_t>& receive_counts, Stream& stream) override {
    check_all_to_all(in, send_counts, out, receive_counts, size_);
    submit(stream,
           {.collective = "all_to_all",
            .in = in,
            .out = out,
            .send_counts = send_counts,
            .receive_counts = receive_counts},
           [rank = rank_](const std::vector<Call>& calls) {
             const Call& own = calls[rank];
             std::size_t to = 0;
             for (std::size_t r = 0; r < calls.size(); ++r) {
               std::size_t from = 0;
               for (std::size_t k = 0; k < rank; ++k) from += calls[r].send_counts[k];
               const std::size_t n = own.receive_counts[r];
               copy_elements(element(own.out, to), element(calls[r].in, from), n, own.in.dtype);
               to += n;
             }
           });
  }

  void broadcast(TensorRef data, std::size_t root, Stream& stream) override {
    check_broadcast(data, root, size_);
    submit(stream, {.collective = "broadcast", .in = data, .root = root},
           [rank = rank_](const std::vector<Call>& calls) {
             const Call& own = calls[rank];
             copy_elements(element(own.in, 0), element(calls[own.root].in, 0), own.in.size(),
                           own.in.dtype);
           });
  }

  void barrier(Stream& stream) override {
    submit(stream, {.collective = "barrier"}, [](const std::vector<Call>&) {});
  }

  void abort(const std::string& reason) noexcept override { group_->rendezvous.abort(reason); }
  void renew() override { group_->rendezvous.renew(); }

 private:
  /// Queues one collective: meet, check what the others bring, do this rank's part, part. `work`
  /// sees the calls of all ranks. A rank whose stream has failed tells the others instead.
  void submit(Stream& stream, Call call, std::function<void(const std::vector<Call>&)> work) {
    auto task = [rank = rank_, group = group_, call = std::move(call), work = std::move(work)] {
      group->calls[rank] = call;
      group->rendezvous.meet();
      struct Part {
        Rendezvous& rendezvous;
        ~Part() { rendezvous.part(); }
      } part{group->rendezvous};
      check_calls(group->calls);
      work(group->calls);
    };
    stream.submit_or_else(std::move(task),
                          [rank = rank_, group = group_](const std::string& cause) {
                            group->rendezvous.abort(concat("rank ", rank, " failed: ", cause));
                          });
  }

  std::size_t rank_, size_;
  std::shared_ptr<Group> group_;
};

}  // namespace

Communicator::~Communicator() = default;

std::vector<std::unique_ptr<Communicator>> make_in_process_communicators(std::size_t count) {
  HCTR_CHECK(count > 0, "a job needs at least one device");
  auto group = std::make_shared<Group>(count);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (std::size_t rank = 0; rank < count; ++rank) {
    communicators.push_back(std::make_unique<InProcessCommunicator>(rank, count, group));
  }
  return communicators;
}

}  // namespace hugectr
