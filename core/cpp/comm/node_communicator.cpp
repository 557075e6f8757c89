// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/node_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/log.hpp"
#include "core/cpp/device/stream.hpp"

namespace hugectr {
namespace {

constexpr int kTimings = 4;      ///< the first of them does not count
constexpr double kWorth = 0.95;  ///< two stages must take at most so much of the direct way's time

/// Elements begin .. begin + n - 1.
TensorRef elements(TensorRef ref, std::size_t begin, std::size_t n) {
  ref.data = static_cast<char*>(ref.data) + begin * size_of(ref.dtype);
  ref.shape = {n};
  ref.row_stride = 1;
  return ref;
}

}  // namespace

NodeCommunicator::NodeCommunicator(NodeStages stages, NodeMap map,
                                   std::shared_ptr<MemoryResource> memory)
    : stages_(std::move(stages)), map_(std::move(map)), memory_(std::move(memory)) {
  for (auto& of_kind : choice_) of_kind.fill(true);
}

bool NodeCommunicator::staged(Kind kind, std::size_t bytes) const {
  const auto at = std::lower_bound(kSizes.begin(), kSizes.end() - 1, bytes);
  return choice_[kind][static_cast<std::size_t>(at - kSizes.begin())];
}

void NodeCommunicator::all_reduce(TensorRef data, Stream& stream) {
  if (!staged(kAllReduce, data.size_in_bytes())) return stages_.flat->all_reduce(data, stream);
  check_all_reduce(data);
  reduce_in_stages(std::move(data), stream);
}

void NodeCommunicator::reduce_in_stages(TensorRef data, Stream& stream) {
  const std::size_t places = map_.places(), part = data.size() / places;
  const std::size_t whole = part * places, rest = data.size() - whole;
  if (part > 0) {
    const TensorRef all = elements(data, 0, whole);
    const TensorRef own = elements(data, map_.place_of(rank()) * part, part);
    stages_.near->reduce_scatter(all, own, stream);
    stages_.far->all_reduce(own, stream);
    stages_.near->all_gather(own, all, stream);
  }
  if (rest > 0) stages_.flat->all_reduce(elements(data, whole, rest), stream);
}

void NodeCommunicator::reduce_scatter(TensorRef in, TensorRef out, Stream& stream) {
  if (!staged(kReduceScatter, in.size_in_bytes())) {
    return stages_.flat->reduce_scatter(in, out, stream);
  }
  check_reduce_scatter(in, out, size());
  scatter_in_stages(in, out, stream);
}

void NodeCommunicator::scatter_in_stages(const TensorRef& in, const TensorRef& out,
                                         Stream& stream) {
  if (in.size() == 0) return;
  const auto [all, part] = scratch(in, in.size(), stream);
  reorder(in, all, true, stream);
  stages_.near->reduce_scatter(all, part, stream);
  stages_.far->reduce_scatter(part, elements(out, 0, out.size()), stream);
}

void NodeCommunicator::all_gather(TensorRef in, TensorRef out, Stream& stream) {
  if (!staged(kAllGather, out.size_in_bytes())) return stages_.flat->all_gather(in, out, stream);
  check_all_gather(in, out, size());
  gather_in_stages(in, out, stream);
}

void NodeCommunicator::gather_in_stages(const TensorRef& in, const TensorRef& out, Stream& stream) {
  if (out.size() == 0) return;
  const auto [all, part] = scratch(out, out.size(), stream);
  stages_.far->all_gather(elements(in, 0, in.size()), part, stream);
  stages_.near->all_gather(part, all, stream);
  reorder(out, all, false, stream);
}

void NodeCommunicator::all_to_all(TensorRef in, const std::vector<std::size_t>& send_counts,
                                  TensorRef out, const std::vector<std::size_t>& receive_counts,
                                  Stream& stream) {
  stages_.flat->all_to_all(std::move(in), send_counts, std::move(out), receive_counts, stream);
}

void NodeCommunicator::together(const std::vector<CollectiveCall>& calls, Stream& stream) {
  for (const CollectiveCall& call : calls) check_call(call, size());
  std::vector<CollectiveCall> direct;
  for (const CollectiveCall& call : calls) {
    const std::string_view name = call.collective;
    if (name == "reduce_scatter" && staged(kReduceScatter, call.in.size_in_bytes())) {
      scatter_in_stages(call.in, call.out, stream);
    } else if (name == "all_gather" && staged(kAllGather, call.out.size_in_bytes())) {
      gather_in_stages(call.in, call.out, stream);
    } else {
      direct.push_back(call);
    }
  }
  stages_.flat->together(direct, stream);
}

void NodeCommunicator::broadcast(TensorRef data, std::size_t root, Stream& stream) {
  stages_.flat->broadcast(std::move(data), root, stream);
}
void NodeCommunicator::barrier(Stream& stream) { stages_.flat->barrier(stream); }

void NodeCommunicator::abort(const std::string& reason) noexcept {
  for (auto* one : {&stages_.flat, &stages_.near, &stages_.far}) (*one)->abort(reason);
}
void NodeCommunicator::leave(const std::string& reason) noexcept {
  for (auto* one : {&stages_.flat, &stages_.near, &stages_.far}) (*one)->leave(reason);
}
void NodeCommunicator::rest() noexcept {
  for (auto* one : {&stages_.flat, &stages_.near, &stages_.far}) (*one)->rest();
}
void NodeCommunicator::wait_until_left() noexcept {
  for (auto* one : {&stages_.flat, &stages_.near, &stages_.far}) (*one)->wait_until_left();
}
void NodeCommunicator::renew() {
  for (auto* one : {&stages_.flat, &stages_.near, &stages_.far}) (*one)->renew();
}

std::array<TensorRef, 2> NodeCommunicator::scratch(const TensorRef& like, std::size_t count,
                                                   Stream& stream) {
  const std::size_t bytes = count * size_of(like.dtype);
  if (!arena_ || bytes > all_.get_size_in_bytes()) make_scratch(bytes, stream);
  TensorRef all = all_.ref(), part = part_.ref();
  all.dtype = part.dtype = like.dtype;
  all.shape = {count};
  part.shape = {count / map_.places()};
  return {all, part};
}

void NodeCommunicator::make_scratch(std::size_t bytes, Stream& stream) {
  stream.synchronize();  // what is on its way uses the old one
  const std::size_t size = bytes + bytes / 8;
  auto next = DeviceBuffer2::create("collectives by node", DeviceAllocator(memory_));
  all_ = next->reserve({size}, TensorScalarType::UInt8, "blocks by place");
  part_ = next->reserve({size / map_.places() + 1}, TensorScalarType::UInt8, "blocks of a place");
  next->allocate();
  arena_ = std::move(next);
}

void NodeCommunicator::reorder(const TensorRef& ranks, const TensorRef& places, bool to_places,
                               Stream& stream) {
  const std::size_t block = ranks.size() / size(), bytes = block * size_of(ranks.dtype);
  for (std::size_t r = 0; r < size(); ++r) {
    const std::size_t at = map_.place_of(r) * map_.nodes() + map_.node_of(r);
    void* const by_rank = elements(ranks, r * block, block).data;
    void* const by_place = elements(places, at * block, block).data;
    stream.copy(to_places ? by_place : by_rank, to_places ? by_rank : by_place, bytes);
  }
}

double NodeCommunicator::seconds(Kind kind, std::size_t bytes, bool in_stages, Stream& stream) {
  const std::size_t block = std::max<std::size_t>(1, bytes / sizeof(float) / size());
  auto memory = DeviceBuffer2::create("timing of collectives", DeviceAllocator(memory_));
  const TensorBag2 large = memory->reserve({block * size()}, TensorScalarType::Float32, "all");
  const TensorBag2 small = memory->reserve({block}, TensorScalarType::Float32, "own");
  memory->allocate();
  stream.fill_zero(large.get_ptr(), large.get_size_in_bytes());
  stream.fill_zero(small.get_ptr(), small.get_size_in_bytes());
  for (auto& of_kind : choice_) of_kind.fill(in_stages);
  double best = 0.0;
  for (int i = 0; i < kTimings; ++i) {
    stages_.flat->barrier(stream);
    stream.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    if (kind == kAllReduce) all_reduce(large.ref(), stream);
    if (kind == kReduceScatter) reduce_scatter(large.ref(), small.ref(), stream);
    if (kind == kAllGather) all_gather(small.ref(), large.ref(), stream);
    stream.synchronize();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i > 0) best = i == 1 ? took.count() : std::min(best, took.count());
  }
  return best;
}

/// What was found and chosen, for people.
std::string NodeCommunicator::described(const std::vector<double>& found) const {
  constexpr std::array kNames{"all-reduce", "reduce-scatter", "all-gather"};
  std::ostringstream text;
  text << "collectives of " << map_.nodes() << " nodes, us directly and by node (* chosen):";
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    text << (kind == 0 ? " " : "; ") << kNames[kind];
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const std::size_t at = 2 * (kind * kSizes.size() + i);
      const auto micro = [&](std::size_t which) {
        return static_cast<std::int64_t>(1e6 * found[at + which] / static_cast<double>(size()));
      };
      const bool by_node = choice_[kind][i];
      text << (i == 0 ? " " : ", ") << kSizes[i] / 1024 << " KiB " << micro(0)
           << (by_node ? " and " : "* and ") << micro(1) << (by_node ? "*" : "");
    }
  }
  return text.str();
}

void NodeCommunicator::tune(Stream& stream, std::vector<double>& found) {
  const bool first = found.empty();
  constexpr std::size_t kTimes = kKinds * kSizes.size() * 2;
  if (first) {
    std::array<double, kTimes> own{};
    std::size_t at = 0;
    for (int kind = 0; kind < kKinds; ++kind) {
      for (const std::size_t bytes : kSizes) {
        for (const bool in_stages : {false, true}) {
          own[at++] = seconds(static_cast<Kind>(kind), bytes, in_stages, stream);
        }
      }
    }
    // Sums are the same bits everywhere, and so is what follows from them.
    auto memory = DeviceBuffer2::create("timing of collectives", DeviceAllocator(memory_));
    const TensorBag2 times = memory->reserve({kTimes}, TensorScalarType::Float64, "seconds");
    memory->allocate();
    stream.copy(times.get_ptr(), own.data(), sizeof own);
    stages_.flat->all_reduce(times.ref(), stream);
    found.resize(kTimes);
    stream.copy(found.data(), times.get_ptr(), sizeof own);
    stream.synchronize();
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const std::size_t at = 2 * (kind * kSizes.size() + i);
      choice_[kind][i] = found.at(at + 1) <= kWorth * found.at(at);
    }
  }
  if (first && rank() == 0) log(LogLevel::Info, described(found));
}

std::vector<std::unique_ptr<Communicator>> make_node_communicators(
    const JobRanks& job, const std::vector<std::size_t>& node_of_process,
    const std::vector<std::shared_ptr<MemoryResource>>& memory, const MakeCommunicators& make) {
  const NodeMap map(job, node_of_process);
  std::vector<std::size_t> ranks;  // of this process
  for (std::size_t r = 0; r < job.process_of_rank.size(); ++r) {
    if (job.process_of_rank[r] == job.processes->rank()) ranks.push_back(r);
  }
  std::vector<std::size_t> all(ranks.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  auto flat = make(all, {job.process_of_rank, job.processes->duplicate("flat")});
  // All processes duplicate the same number of times, whatever parts they belong to.
  auto near =
      make(all, map.node_job(map.node_of(ranks.front()), job, job.processes->duplicate("node")));
  std::vector<std::unique_ptr<Communicator>> result;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t place = map.place_of(ranks[i]);
    auto far = make({i}, map.place_job(place, job, job.processes->duplicate("place")));
    result.push_back(std::make_unique<NodeCommunicator>(
        NodeStages{std::move(flat[i]), std::move(near[i]), std::move(far.front())}, map,
        memory[i]));
  }
  return result;
}

}  // namespace hugectr
