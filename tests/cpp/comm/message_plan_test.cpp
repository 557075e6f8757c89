// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/message_plan.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <numeric>
#include <random>

namespace hugectr {
namespace {

TensorRef ref_of(std::vector<char>& bytes, TensorScalarType dtype) {
  TensorRef ref;
  ref.data = bytes.data();
  ref.dtype = dtype;
  ref.shape = {bytes.size() / size_of(dtype)};
  ref.row_stride = 1;
  return ref;
}

/// Ranks that send one another random blocks in several all-to-alls, by their plans and directly.
/// Counts are bytes; those of a call are whole elements of its type.
struct Exchange {
  Exchange(std::size_t size, std::size_t calls, std::size_t most, std::mt19937_64& random)
      : counts(calls, std::vector<std::vector<std::size_t>>(size, std::vector<std::size_t>(size))),
        in(size),
        out(size),
        apart(size) {
    constexpr TensorScalarType kTypes[] = {TensorScalarType::UInt8, TensorScalarType::BFloat16,
                                           TensorScalarType::Float32, TensorScalarType::Int64};
    for (auto& call : counts) {
      dtypes.push_back(kTypes[random() % std::size(kTypes)]);
      const std::size_t width = size_of(dtypes.back());
      for (auto& row : call) {
        for (std::size_t& n : row) {
          n = random() % 3 == 0 ? 0 : width * (random() % most);
          if (random() % 300 == 0) n = MessagePlan::kSmall + width * (random() % 3) - width;
        }
      }
    }
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t c = 0; c < calls; ++c) {
        std::size_t sent = 0, taken = 0;
        for (std::size_t p = 0; p < size; ++p) {
          sent += counts[c][r][p];
          taken += counts[c][p][r];
        }
        in[r].emplace_back(sent + 8);
        for (auto& byte : in[r].back()) byte = static_cast<char>(random());
        out[r].emplace_back(taken + 8);
        apart[r].push_back(false);
      }
    }
  }

  std::vector<CollectiveCall> calls_of(std::size_t rank) {
    std::vector<CollectiveCall> calls;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      CollectiveCall call{.collective = "all_to_all", .own_apart = apart[rank][c]};
      call.in = ref_of(in[rank][c], dtypes[c]);
      call.out = ref_of(out[rank][c], dtypes[c]);
      for (std::size_t p = 0; p < in.size(); ++p) {
        call.send_counts.push_back(counts[c][rank][p] / size_of(dtypes[c]));
        call.receive_counts.push_back(counts[c][p][rank] / size_of(dtypes[c]));
      }
      calls.push_back(call);
      if (c % 3 == 1) calls.push_back({.collective = "all_gather", .in = call.in, .out = call.out});
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
  std::vector<TensorScalarType> dtypes;                       ///< of call
  std::vector<std::vector<std::vector<char>>> in, out;        ///< of rank and call
  std::vector<std::vector<bool>> apart;                       ///< of rank and call
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
    const std::size_t most = turn % 20 == 0 ? MessagePlan::kSmall / 16 : 1 + random() % 200;
    Exchange exchange(size, calls, most, random);
    for (std::vector<bool>& of_rank : exchange.apart) {
      for (std::size_t c = 0; c < calls; ++c) of_rank[c] = random() % 4 == 0;
    }
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
          std::vector<char> block = exchange.sent(c, from, to);
          if (from == to && exchange.apart[to][c]) block.assign(block.size(), 0);  // as it was
          wanted.insert(wanted.end(), block.begin(), block.end());
        }
        wanted.resize(wanted.size() + 8);  // behind what came nothing is written
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
  exchange.dtypes.assign(26, TensorScalarType::UInt8);
  exchange.in.assign(3, std::vector(26, std::vector<char>(900)));
  exchange.out = exchange.in;
  const MessagePlan plan(exchange.calls_of(1), 1, 3);
  EXPECT_EQ(plan.sends().size(), 2U);
  EXPECT_EQ(plan.receives().size(), 2U);
  EXPECT_EQ(plan.before().size(), 3U * 26);
  EXPECT_EQ(plan.after().size(), 2U * 26);
  EXPECT_EQ(plan.bytes(), 4U * 26 * 304);
}

TEST(MessagePlan, PackedMessagesAreBounded) {
  std::mt19937_64 random(3);
  constexpr std::size_t kCalls = 10;
  Exchange exchange(2, kCalls, 1, random);
  const std::size_t small = MessagePlan::kSmall - 16, fit = MessagePlan::kMostPacked / small;
  ASSERT_LT(fit, kCalls);
  for (auto& call : exchange.counts) call = {{0, small}, {small, 0}};
  exchange.dtypes.assign(kCalls, TensorScalarType::UInt8);
  exchange.in.assign(2, std::vector(kCalls, std::vector<char>(small)));
  exchange.out = exchange.in;
  const MessagePlan plan(exchange.calls_of(0), 0, 2);
  EXPECT_EQ(plan.bytes(), 2 * fit * small);
  EXPECT_EQ(plan.sends().size(), 1 + kCalls - fit);
}

TEST(MessagePlan, ManyDevicesShareTheMemoryOfPackedMessages) {
  EXPECT_EQ(MessagePlan::most_packed(2), MessagePlan::kMostPacked);
  EXPECT_EQ(MessagePlan::most_packed(4), MessagePlan::kMostPacked);
  EXPECT_EQ(MessagePlan::most_packed(64) * 64, MessagePlan::kMostOfAll);
}

TEST(MessagePlan, OwnBlocksThatDisagreeAreRefused) {
  std::mt19937_64 random(3);
  Exchange exchange(1, 2, 1, random);
  exchange.counts.assign(2, {{16}});
  exchange.dtypes.assign(2, TensorScalarType::UInt8);
  exchange.in.assign(1, std::vector(2, std::vector<char>(16)));
  exchange.out = exchange.in;
  std::vector<CollectiveCall> calls = exchange.calls_of(0);
  calls[1].receive_counts = {15};
  EXPECT_THROW(MessagePlan(calls, 0, 1), InvalidArgument);
  calls[1].receive_counts = {0};
  EXPECT_THROW(MessagePlan(calls, 0, 1), InvalidArgument);
}

TEST(MessagePlan, OneCallIsAsItIs) {
  std::mt19937_64 random(3);
  Exchange exchange(2, 1, 100, random);
  exchange.counts[0] = {{5, 6}, {7, 8}};
  exchange.dtypes.assign(1, TensorScalarType::UInt8);
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
