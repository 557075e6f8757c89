// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/node_communicator.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/random.hpp"
#include "tests/cpp/comm/ranks.hpp"

/// Collectives by node against sums on the host. Parts of this program stand for processes.
namespace hugectr {
namespace {

struct Layout {
  Processes process_of_rank;
  std::vector<std::size_t> node_of_process;
};

/// Ranks whose communicators go by node.
struct NodeRanks {
  explicit NodeRanks(const Layout& layout)
      : groups(ThreadProcessGroup::make(layout.node_of_process.size())),
        communicators(layout.process_of_rank.size()) {
    for (const auto& group : groups) {
      const JobRanks job{layout.process_of_rank, group};
      const auto locals = static_cast<std::size_t>(
          std::count(layout.process_of_rank.begin(), layout.process_of_rank.end(), group->rank()));
      const std::vector<std::shared_ptr<MemoryResource>> memory(locals,
                                                                make_host_memory_resource());
      auto own = make_node_communicators(job, layout.node_of_process, memory,
                                         [](const std::vector<std::size_t>&, const JobRanks& part) {
                                           return make_host_communicators(part);
                                         });
      for (auto& one : own) communicators[one->rank()] = std::move(one);
    }
    for (std::size_t r = 0; r < communicators.size(); ++r) {
      streams.push_back(make_cpu_stream({DeviceType::Cpu, static_cast<int>(r)}, "rank"));
    }
  }
  /// A thread a rank, as devices have: two stages may wait for the host in between.
  template <class F>
  void run(const F& f) {
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < streams.size(); ++r) {
      threads.emplace_back([&, r] {
        f(r, *communicators[r], *streams[r]);
        streams[r]->synchronize();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<std::shared_ptr<IProcessGroup>> groups;
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::unique_ptr<Stream>> streams;
};

std::int64_t value(std::size_t r, std::size_t i) {
  return static_cast<std::int64_t>(philox4x32(5, r, i).x[0]);
}

class ByNodeRanks : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, ByNodeRanks,
                         testing::Values(Layout{{0, 0, 1, 1}, {0, 1}},
                                         Layout{{0, 1, 2, 3}, {0, 0, 1, 1}},
                                         Layout{{0, 1, 2, 3}, {0, 1, 0, 1}},  // nodes take turns
                                         Layout{{0, 1, 0, 1}, {0, 1}},        // ranks do
                                         Layout{{0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 1, 1}},
                                         Layout{{0, 0, 0, 1, 1, 1, 2, 2, 2}, {0, 1, 2}},
                                         Layout{{0, 1}, {0, 1}}));

TEST_P(ByNodeRanks, CollectivesAreThoseOfAllRanks) {
  const std::size_t size = GetParam().process_of_rank.size();
  NodeRanks ranks(GetParam());
  using Numbers = std::vector<std::vector<std::int64_t>>;
  for (const std::size_t n : {0, 1, 3, 1000, 50'001}) {  // scratch grows, and is used again
    Numbers reduced(size, std::vector<std::int64_t>(n)), in(size), out(size), gathered(size);
    Numbers sent(size), came(size);
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < n; ++i) reduced[r][i] = value(r, i);
      for (std::size_t i = 0; i < n * size; ++i) in[r].push_back(value(r, i + 7));
      out[r].resize(n);
      gathered[r].resize(n * size);
      for (std::size_t to = 0; to < size; ++to) sent[r].insert(sent[r].end(), to, value(r, to));
      came[r].resize(r * size);
    }
    ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
      EXPECT_EQ(comm.rank(), r);
      EXPECT_EQ(comm.size(), size);
      comm.all_reduce(make_ref(reduced[r].data(), {n}), stream);
      comm.reduce_scatter(make_ref(in[r].data(), {n * size}), make_ref(out[r].data(), {n}), stream);
      comm.all_gather(make_ref(in[r].data(), {n}), make_ref(gathered[r].data(), {n * size}),
                      stream);
      std::vector<std::size_t> to(size), from(size, r);
      std::iota(to.begin(), to.end(), 0);
      comm.all_to_all(make_ref(sent[r].data(), {sent[r].size()}), to,
                      make_ref(came[r].data(), {came[r].size()}), from, stream);
    });
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < n; ++i) {
        std::int64_t sum = 0, part = 0;
        for (std::size_t s = 0; s < size; ++s) {
          sum += value(s, i);
          part += value(s, r * n + i + 7);
        }
        ASSERT_EQ(reduced[r][i], sum) << n;
        ASSERT_EQ(out[r][i], part) << n;
      }
      for (std::size_t s = 0; s < size; ++s) {
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(gathered[r][s * n + i], in[s][i]);
        for (std::size_t i = 0; i < r; ++i) ASSERT_EQ(came[r][s * r + i], value(s, r));
      }
    }
  }
}

TEST_P(ByNodeRanks, SeveralTogether) {
  const std::size_t size = GetParam().process_of_rank.size(), n = 40;
  NodeRanks ranks(GetParam());
  std::vector<std::vector<std::int64_t>> in(size, std::vector<std::int64_t>(n * size, 1));
  std::vector<std::vector<std::int64_t>> out(size, std::vector<std::int64_t>(n)),
      all(size, std::vector<std::int64_t>(n * size));
  for (std::size_t r = 0; r < size; ++r) in[r][0] = static_cast<std::int64_t>(r);
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.together({{.collective = "reduce_scatter",
                    .in = make_ref(in[r].data(), {n * size}),
                    .out = make_ref(out[r].data(), {n})},
                   {.collective = "all_gather",
                    .in = make_ref(in[r].data(), {n}),
                    .out = make_ref(all[r].data(), {n * size})}},
                  stream);
  });
  for (std::size_t r = 0; r < size; ++r) {
    EXPECT_EQ(out[r][1], static_cast<std::int64_t>(size));
    for (std::size_t s = 0; s < size; ++s) EXPECT_EQ(all[r][s * n], static_cast<std::int64_t>(s));
  }
}

TEST(ByNode, WhatIsTimedIsChosenAlike) {
  NodeRanks ranks({{0, 0, 1, 1}, {0, 1}});
  std::vector<std::vector<double>> found(4);
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.tune(stream, found[r]);
    const std::vector<double> first = found[r];
    comm.tune(stream, found[r]);  // as others chose it
    EXPECT_EQ(found[r], first);
    std::vector<float> data(100'000, 1.0f);
    comm.all_reduce(make_ref(data.data(), {data.size()}), stream);
    stream.synchronize();
    EXPECT_EQ(data, std::vector<float>(data.size(), 4.0f));
  });
  for (std::size_t r = 1; r < 4; ++r) EXPECT_EQ(found[r], found[0]);
  ASSERT_EQ(found[0].size(), 18u);
  for (const double seconds : found[0]) EXPECT_GT(seconds, 0.0);
}

TEST(ByNode, RefusesUnlikeNodes) {
  const auto map = [](const Layout& layout) {
    return NodeMap({layout.process_of_rank, nullptr}, layout.node_of_process);
  };
  EXPECT_THROW(map({{0, 1, 2}, {0, 0, 1}}), InvalidArgument);
  EXPECT_THROW(map({{0, 0, 1, 2, 2, 3}, {0, 0, 1, 1}}), InvalidArgument);
  EXPECT_EQ(map({{0, 1, 2, 3}, {1, 0, 1, 0}}).rank(1, 1), 2u);
}

TEST(ByNode, ProcessesOfOneNameAreOneNode) {
  const auto groups = ThreadProcessGroup::make(4);
  const std::vector<std::string> names{"b", "a", "b", "a"};
  std::vector<std::thread> threads;
  std::vector<std::vector<std::size_t>> found(4);
  for (std::size_t p = 0; p < 4; ++p) {
    threads.emplace_back([&, p] { found[p] = nodes_of_processes(*groups[p], names[p]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& nodes : found) EXPECT_EQ(nodes, (std::vector<std::size_t>{0, 1, 0, 1}));
}

/// One rank that fails ends the others, whichever stage they wait in.
TEST(ByNode, AnAbortReachesEveryStage) {
  NodeRanks ranks({{0, 0, 1, 1}, {0, 1}});
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      if (r == 2) return ranks.communicators[r]->abort("rank 2 had enough");
      std::vector<float> data(1000);
      ranks.communicators[r]->all_reduce(make_ref(data.data(), {data.size()}), *ranks.streams[r]);
      EXPECT_THROW(ranks.streams[r]->synchronize(), CommError);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hugectr
