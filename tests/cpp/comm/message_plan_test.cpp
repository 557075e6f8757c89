// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/message_plan.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <numeric>
#include <random>

namespace hugectr {
namespace {

/// Ranks that send one another random blocks in several all-to-alls, by their plans and directly.
struct Exchange {
  Exchange(std::size_t size, std::size_t calls, std::size_t most, std::mt19937_64& random)
      : counts(calls, std::vector<std::vector<std::size_t>>(size, std::vector<std::size_t>(size))),
        in(size),
        out(size) {
    for (auto& call : counts) {
      for (auto& row : call) {
        for (std::size_t& n : row) n = random() % 3 == 0 ? 0 : random() % most;
      }
    }
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t c = 0; c < calls; ++c) {
        std::size_t sent = 0, taken = 0;
        for (std::size_t p = 0; p < size; ++p) {
          sent += counts[c][r][p];
          taken += counts[c][p][r];
        }
        in[r].emplace_back(sent + 1);
        for (auto& byte : in[r].back()) byte = static_cast<char>(random());
        out[r].emplace_back(taken + 1);
      }
    }
  }

  std::vector<CollectiveCall> calls_of(std::size_t rank) {
    std::vector<CollectiveCall> calls;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      CollectiveCall call{.collective = "all_to_all"};
      const auto ref = [](std::vector<char>& bytes) {
        TensorRef ref;
        ref.data = bytes.data();
        ref.dtype = TensorScalarType::UInt8;
        ref.shape = {bytes.size()};
        ref.row_stride = 1;
        return ref;
      };
      call.in = ref(in[rank][c]);
      call.out = ref(out[rank][c]);
      for (std::size_t p = 0; p < in.size(); ++p) {
        call.send_counts.push_back(counts[c][rank][p]);
        call.receive_counts.push_back(counts[c][p][rank]);
      }
      calls.push_back(call);
    }
    return calls;
  }

  /// Bytes [first, first + n) that rank `from` sends rank `to` in call c.
  std::vector<char> sent(std::size_t c, std::size_t from, std::size_t to) const {
    const auto& row = counts[c][from];
    const auto begin =
        in[from][c].begin() + static_cast<std::ptrdiff_t>(std::accumulate(
                                  row.begin(), row.begin() + static_cast<std::ptrdiff_t>(to), 0UL));
    return {begin, begin + static_cast<std::ptrdiff_t>(row[to])};
  }

  std::vector<std::vector<std::vector<std::size_t>>> counts;  ///< of call, sender, receiver
  std::vector<std::vector<std::vector<char>>> in, out;        ///< of rank and call
};

void run(const std::vector<CopiedBytes>& copies) {
  for (const CopiedBytes& copy : copies) std::memcpy(copy.to, copy.from, copy.bytes);
}

/// Messages of a list that a peer has a part in.
std::vector<MessagePlan::Message> with(const std::vector<MessagePlan::Message>& all,
                                       std::size_t peer) {
  std::vector<MessagePlan::Message> some;
  for (const auto& message : all) {
    if (message.peer == peer) some.push_back(message);
  }
  return some;
}

TEST(MessagePlan, BringsEveryBlockWhereItBelongs) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int turn = 0; turn < 60; ++turn) {
    const std::size_t size = 1 + random() % 5, calls = 1 + random() % 9;
    const std::size_t most = turn % 20 == 0 ? 3 * MessagePlan::kSmall : 1 + random() % 200;
    Exchange exchange(size, calls, most, random);
    std::vector<MessagePlan> plans;
    std::vector<std::vector<char>> memory(size);
    for (std::size_t r = 0; r < size; ++r) {
      plans.emplace_back(exchange.calls_of(r), r, size);
      memory[r].resize(plans[r].bytes() + 1);
      plans[r].place(memory[r].data());
      run(plans[r].before());
    }
    for (std::size_t from = 0; from < size; ++from) {
      for (std::size_t to = 0; to < size; ++to) {
        const auto sends = with(plans[from].sends(), to);
        const auto receives = with(plans[to].receives(), from);
        ASSERT_EQ(sends.size(), receives.size()) << seed;
        for (std::size_t i = 0; i < sends.size(); ++i) {
          ASSERT_EQ(sends[i].bytes, receives[i].bytes) << seed;
          std::memcpy(receives[i].data, sends[i].data, sends[i].bytes);
        }
      }
    }
    for (std::size_t r = 0; r < size; ++r) run(plans[r].after());
    for (std::size_t to = 0; to < size; ++to) {
      for (std::size_t c = 0; c < calls; ++c) {
        std::vector<char> wanted;
        for (std::size_t from = 0; from < size; ++from) {
          const std::vector<char> block = exchange.sent(c, from, to);
          wanted.insert(wanted.end(), block.begin(), block.end());
        }
        wanted.push_back(0);
        ASSERT_EQ(exchange.out[to][c], wanted) << seed;
      }
    }
  }
}

TEST(MessagePlan, ManySmallBlocksAreAMessageAPeer) {
  std::mt19937_64 random(3);
  Exchange exchange(3, 26, 1000, random);
  for (auto& call : exchange.counts) {
    for (auto& row : call) row.assign(3, 300);
  }
  exchange.in.assign(3, std::vector(26, std::vector<char>(900)));
  exchange.out = exchange.in;
  const MessagePlan plan(exchange.calls_of(1), 1, 3);
  EXPECT_EQ(plan.sends().size(), 2U);
  EXPECT_EQ(plan.receives().size(), 2U);
  EXPECT_EQ(plan.before().size(), 3U * 26);
  EXPECT_EQ(plan.after().size(), 2U * 26);
  EXPECT_EQ(plan.bytes(), 4U * 26 * 304);
}

TEST(MessagePlan, OneCallIsAsItIs) {
  std::mt19937_64 random(3);
  Exchange exchange(2, 1, 100, random);
  exchange.counts[0] = {{5, 6}, {7, 8}};
  exchange.in.assign(2, {std::vector<char>(20)});
  exchange.out = exchange.in;
  const MessagePlan plan(exchange.calls_of(0), 0, 2);
  EXPECT_EQ(plan.bytes(), 0U);
  EXPECT_TRUE(plan.before().empty());
  EXPECT_TRUE(plan.after().empty());
  ASSERT_EQ(plan.sends().size(), 2U);
  EXPECT_EQ(plan.sends()[1].bytes, 6U);
}

}  // namespace
}  // namespace hugectr
