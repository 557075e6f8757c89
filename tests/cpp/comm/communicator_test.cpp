// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/communicator.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <numeric>

#include "core/cpp/base/half.hpp"
#include "core/cpp/base/random.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "tests/cpp/comm/ranks.hpp"

namespace hugectr {
namespace {

class Sizes : public testing::TestWithParam<Processes> {};

/// Value of element i of rank r: no two alike, and no sum of them exact in float.
float value(std::size_t r, std::size_t i) {
  return symmetric_float(philox4x32(3, r, i).x[0], 100.0f);
}

TEST_P(Sizes, AllReduceSumsInRankOrder) {
  const std::size_t size = GetParam().size();
  Ranks ranks(GetParam());
  for (const std::size_t n : {0, 1, 7, 1024, 5000, 100'003}) {
    std::vector<std::vector<float>> data(size, std::vector<float>(n));
    std::vector<float> expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t r = 0; r < size; ++r) {
        data[r][i] = value(r, i);
        expected[i] = r == 0 ? data[r][i] : expected[i] + data[r][i];
      }
    }
    ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
      EXPECT_EQ(comm.rank(), r);
      EXPECT_EQ(comm.size(), size);
      comm.all_reduce(make_ref(data[r].data(), {n}), stream);
    });
    for (std::size_t r = 0; r < size; ++r) ASSERT_EQ(data[r], expected) << n;
  }
}

template <class T>
void check_type(const Processes& processes, T start) {
  const std::size_t size = processes.size();
  Ranks ranks(processes);
  const std::size_t n = 3000;
  std::vector<std::vector<T>> data(size, std::vector<T>(n));
  std::vector<T> expected(n, 0);
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t i = 0; i < n; ++i) {
      data[r][i] = start + static_cast<T>(i * (r + 1));
      expected[i] += data[r][i];
    }
  }
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.all_reduce(make_ref(data[r].data(), {n}), stream);
  });
  for (std::size_t r = 0; r < size; ++r) ASSERT_EQ(data[r], expected);
}

TEST_P(Sizes, AllReduceOfEveryType) {
  check_type<double>(GetParam(), 1e-9);
  check_type<std::int64_t>(GetParam(), std::int64_t{1} << 50);
  check_type<std::int32_t>(GetParam(), -5000);
  check_type<std::uint32_t>(GetParam(), 4'000'000'000u);  // wraps around
}

template <class T, class Narrow>
void check_16_bits(const Processes& processes, const Narrow& narrow) {
  const std::size_t size = processes.size();
  Ranks ranks(processes);
  const std::size_t n = 5000;
  std::vector<std::vector<T>> data(size, std::vector<T>(size * n));
  std::vector<std::vector<T>> out(size, std::vector<T>(n));
  std::vector<float> sum(size * n);
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t i = 0; i < size * n; ++i) {
      data[r][i] = narrow(value(r, i));
      sum[i] += to_float(data[r][i]);
    }
  }
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.reduce_scatter(make_ref(data[r].data(), {size, n}), make_ref(out[r].data(), {n}), stream);
    comm.all_reduce(make_ref(data[r].data(), {size * n}), stream);
  });
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t i = 0; i < size * n; ++i) {
      ASSERT_EQ(data[r][i].bits, narrow(sum[i]).bits) << i;
    }
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(out[r][i].bits, narrow(sum[r * n + i]).bits) << i;
    }
  }
}

TEST_P(Sizes, SumsOf16BitsAreFloat32AndRoundedOnce) {
  check_16_bits<Float16>(GetParam(), to_float16);
  check_16_bits<BFloat16>(GetParam(), to_bfloat16);
}

TEST_P(Sizes, ReduceScatter) {
  const std::size_t size = GetParam().size(), n = 501;
  Ranks ranks(GetParam());
  std::vector<std::vector<float>> in(size, std::vector<float>(size * n)),
      out(size, std::vector<float>(n));
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t i = 0; i < size * n; ++i) in[r][i] = value(r, i);
  }
  const auto before = in;
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.reduce_scatter(make_ref(in[r].data(), {size, n}), make_ref(out[r].data(), {n}), stream);
  });
  EXPECT_EQ(in, before);
  // And in place: out is block rank() of in.
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.reduce_scatter(make_ref(in[r].data(), {size, n}), make_ref(in[r].data() + r * n, {n}),
                        stream);
  });
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t i = 0; i < n; ++i) {
      float sum = before[0][r * n + i];
      for (std::size_t s = 1; s < size; ++s) sum += before[s][r * n + i];
      ASSERT_EQ(out[r][i], sum);
      ASSERT_EQ(in[r][r * n + i], sum);
    }
  }
}

TEST_P(Sizes, AllGather) {
  const std::size_t size = GetParam().size(), n = 77;
  Ranks ranks(GetParam());
  std::vector<std::vector<std::uint64_t>> in(size, std::vector<std::uint64_t>(n)),
      out(size, std::vector<std::uint64_t>(size * n));
  for (std::size_t r = 0; r < size; ++r) std::iota(in[r].begin(), in[r].end(), r * 1000);
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.all_gather(make_ref(in[r].data(), {n}), make_ref(out[r].data(), {size, n}), stream);
  });
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t i = 0; i < size * n; ++i) ASSERT_EQ(out[r][i], i / n * 1000 + i % n);
  }
}

TEST_P(Sizes, AllToAllWithUnequalCounts) {
  const std::size_t size = GetParam().size();
  Ranks ranks(GetParam());
  // Rank s sends (3 s + 5 r) % 7 elements to rank r; each carries sender, receiver, position.
  auto count = [](std::size_t s, std::size_t r) { return (3 * s + 5 * r) % 7; };
  auto mark = [](std::size_t s, std::size_t r, std::size_t i) {
    return static_cast<std::int32_t>(s * 10'000 + r * 100 + i);
  };
  std::vector<std::vector<std::int32_t>> in(size), out(size), expected(size);
  std::vector<std::vector<std::size_t>> send(size), receive(size);
  for (std::size_t a = 0; a < size; ++a) {
    for (std::size_t b = 0; b < size; ++b) {
      send[a].push_back(count(a, b));
      receive[a].push_back(count(b, a));
      for (std::size_t i = 0; i < count(a, b); ++i) in[a].push_back(mark(a, b, i));
      for (std::size_t i = 0; i < count(b, a); ++i) expected[a].push_back(mark(b, a, i));
    }
    out[a].resize(expected[a].size());
  }
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.all_to_all(make_ref(in[r].data(), {in[r].size()}), send[r],
                    make_ref(out[r].data(), {out[r].size()}), receive[r], stream);
  });
  EXPECT_EQ(out, expected);
}

/// Of unlike types and sizes, among them nothing.
TEST_P(Sizes, TogetherIsEachAlone) {
  const std::size_t size = GetParam().size(), n = 301;
  Ranks ranks(GetParam());
  struct Buffers {
    std::vector<float> summed, sum, whole;
    std::vector<std::uint32_t> sent, received;
  };
  std::vector<Buffers> together(size), alone;
  for (std::size_t r = 0; r < size; ++r) {
    Buffers& b = together[r];
    for (std::size_t i = 0; i < size * n; ++i) b.summed.push_back(value(r, i));
    b.sum.resize(n);
    b.whole.resize(size * n);
    for (std::size_t i = 0; i < size * 2; ++i) {
      b.sent.push_back(static_cast<std::uint32_t>(100 * r + i));
    }
    b.received.resize(size * 2);
  }
  alone = together;
  const std::vector<std::size_t> two(size, 2), none(size, 0);
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    Buffers &a = together[r], &b = alone[r];
    const TensorRef sent = make_ref(a.sent.data(), {size * 2}),
                    received = make_ref(a.received.data(), {size * 2});
    comm.together({{.collective = "reduce_scatter",
                    .in = make_ref(a.summed.data(), {size, n}),
                    .out = make_ref(a.sum.data(), {n})},
                   {.collective = "all_to_all",
                    .in = sent,
                    .out = received,
                    .send_counts = two,
                    .receive_counts = two},
                   {.collective = "all_to_all",
                    .in = sent,
                    .out = received,
                    .send_counts = none,
                    .receive_counts = none},
                   {.collective = "all_gather",
                    .in = make_ref(a.summed.data(), {n}),
                    .out = make_ref(a.whole.data(), {size, n})}},
                  stream);
    comm.together({}, stream);
    comm.reduce_scatter(make_ref(b.summed.data(), {size, n}), make_ref(b.sum.data(), {n}), stream);
    comm.all_to_all(make_ref(b.sent.data(), {size * 2}), two,
                    make_ref(b.received.data(), {size * 2}), two, stream);
    comm.all_gather(make_ref(b.summed.data(), {n}), make_ref(b.whole.data(), {size, n}), stream);
    EXPECT_THROW(comm.together({{.collective = "barrier"}}, stream), InvalidArgument);
  });
  for (std::size_t r = 0; r < size; ++r) {
    EXPECT_EQ(together[r].sum, alone[r].sum);
    EXPECT_EQ(together[r].received, alone[r].received);
    EXPECT_EQ(together[r].whole, alone[r].whole);
  }
}

TEST_P(Sizes, WhatARankHasOfItselfIsLeftAsItIs) {
  const std::size_t size = GetParam().size();
  Ranks ranks(GetParam());
  std::vector<std::vector<float>> in(size), out(size);
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t i = 0; i < 3 * size; ++i) in[r].push_back(value(r, i));
    out[r].assign(3 * size, -1.0f);
  }
  const std::vector<std::size_t> three(size, 3);
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.together({{.collective = "all_to_all",
                    .in = make_ref(in[r].data(), {3 * size}),
                    .out = make_ref(out[r].data(), {3 * size}),
                    .send_counts = three,
                    .receive_counts = three,
                    .own_apart = r % 2 == 0}},
                  stream);
  });
  for (std::size_t to = 0; to < size; ++to) {
    for (std::size_t i = 0; i < 3 * size; ++i) {
      const std::size_t from = i / 3;
      const bool left = from == to && to % 2 == 0;
      EXPECT_EQ(out[to][i], left ? -1.0f : in[from][3 * to + i % 3]);
    }
  }
}

TEST_P(Sizes, BroadcastFromEveryRoot) {
  const std::size_t size = GetParam().size();
  Ranks ranks(GetParam());
  for (std::size_t root = 0; root < size; ++root) {
    std::vector<std::vector<std::uint8_t>> data(size, std::vector<std::uint8_t>(99));
    for (std::size_t r = 0; r < size; ++r) std::fill(data[r].begin(), data[r].end(), r + 1);
    ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
      comm.broadcast(make_ref(data[r].data(), {99}), root, stream);
    });
    for (const auto& d : data) ASSERT_EQ(d, data[root]);
    ASSERT_EQ(data[0][5], root + 1);
  }
}

TEST_P(Sizes, BarrierWaitsForAll) {
  const std::size_t size = GetParam().size();
  Ranks ranks(GetParam());
  std::atomic<std::size_t> before{0};
  std::atomic<bool> early{false};
  ranks.run([&](std::size_t, Communicator& comm, Stream& stream) {
    stream.submit([&] { ++before; });
    comm.barrier(stream);
    stream.submit([&] { early = early || before != size; });
  });
  EXPECT_FALSE(early);
}

TEST_P(Sizes, ManyCollectivesInARowUnderDelays) {
  const std::size_t size = GetParam().size();
  setenv("HUGECTR_STREAM_DELAY_US", "100", 1);
  Ranks ranks(GetParam());
  unsetenv("HUGECTR_STREAM_DELAY_US");
  std::vector<std::vector<double>> data(size, std::vector<double>(64, 1.0));
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    for (int i = 0; i < 50; ++i) {
      const TensorRef ref = make_ref(data[r].data(), {64});
      comm.all_reduce(ref, stream);
      stream.submit([&d = data[r], size] {
        for (double& x : d) x /= static_cast<double>(size);
      });
    }
  });
  for (const auto& d : data) {
    for (const double x : d) ASSERT_DOUBLE_EQ(x, 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(OneProcess, Sizes,
                         testing::Values(Processes(1), Processes(2), Processes(3), Processes(4),
                                         Processes(8)));
INSTANTIATE_TEST_SUITE_P(ManyProcesses, Sizes,
                         testing::Values(Processes{0, 1}, Processes{0, 1, 2, 3},
                                         Processes{0, 0, 1, 1}, Processes{0, 1, 0, 1},
                                         Processes{0, 1, 1, 1, 2}));

TEST(Communicator, RowOffsetsOfTwoNodesAddUp) {
  Ranks ranks(2);
  std::vector<std::vector<std::uint32_t>> offsets{{0, 4, 7, 9, 10}, {0, 5, 7, 10, 11}};
  ranks.run([&](std::size_t r, Communicator& comm, Stream& stream) {
    comm.all_reduce(make_ref(offsets[r].data(), {5}), stream);
  });
  const std::vector<std::uint32_t> expected{0, 9, 14, 19, 21};
  EXPECT_EQ(offsets[0], expected);
  EXPECT_EQ(offsets[1], expected);
}

}  // namespace
}  // namespace hugectr
