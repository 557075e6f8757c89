// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/moves_by_host.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/table/faster_way.hpp"
#include "core/cpp/embedding/table/row_staging.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr::test {
namespace {

/// Some rows of `count` places and of a home of `rows`, of the given widths, and what moves.
struct Moved {
  std::vector<std::size_t> widths;
  std::size_t places, rows, count;
  bool leaves, comes;
  std::vector<std::vector<float>> cache, home;
  std::vector<std::uint32_t> at, leaving, coming;

  template <class Random>
  void draw(Random& random) {
    const auto numbers = [&](std::size_t n) {
      std::vector<std::uint32_t> all(n);
      for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<std::uint32_t>(i);
      std::shuffle(all.begin(), all.end(), random);
      return all;
    };
    at = numbers(places);
    at.resize(count);
    coming = numbers(rows);
    leaving.assign(coming.begin() + static_cast<std::ptrdiff_t>(count), coming.end());
    leaving.resize(count);
    coming.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (random() % 2) leaving[i] = coming[i];
      if (random() % 5 == 0) leaving[i] = kNoRow;
      if (random() % 5 == 0) coming[i] = kNoRow;
    }
    float value = 0.0f;
    for (const std::size_t width : widths) {
      for (auto* arrays : {&cache, &home}) {
        std::vector<float>& array =
            arrays->emplace_back((arrays == &cache ? places : rows) * width);
        for (float& each : array) each = value += 1.0f;
      }
    }
  }
  MoveRows op(DeviceId device) {
    const auto list = [&](std::vector<std::uint32_t>& of, bool there) {
      return there ? make_ref(of.data(), {count}, device) : TensorRef{};
    };
    MoveRows op{.places = list(at, true),
                .leaving = list(leaving, leaves),
                .coming = list(coming, comes),
                .count = static_cast<std::int64_t>(count)};
    for (std::size_t a = 0; a < widths.size(); ++a) {
      op.cache.push_back(make_ref(cache[a].data(), {places, widths[a]}, device));
      op.home.push_back(make_ref(home[a].data(), {rows, widths[a]}, device));
    }
    return op;
  }
  void move_here() {
    const auto old_cache = cache, old_home = home;
    for (std::size_t a = 0; a < widths.size(); ++a) {
      const std::size_t width = widths[a];
      for (std::size_t i = 0; i < count; ++i) {
        const auto copy = [&](const float* from, float* to) { std::copy_n(from, width, to); };
        if (leaves && leaving[i] != kNoRow)
          copy(&old_cache[a][at[i] * width], &home[a][leaving[i] * width]);
        if (comes && coming[i] != kNoRow)
          copy(&old_home[a][coming[i] * width], &cache[a][at[i] * width]);
      }
    }
  }
};

/// By so many pieces at a time.
class MovesByHostInTurns : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Pieces, MovesByHostInTurns,
                         testing::Values(1, 2, MovesByHost::kMostPieces));

TEST_P(MovesByHostInTurns, LeaveRowsWhereTheOpDoes) {
  const auto resources = ResourceManager::create({{0}}, 1);
  GPUResource& gpu = resources->get_local_gpu(0);
  MovesByHost moves(gpu, GetParam());
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int turn = 0; turn < 12; ++turn) {
    // Some two pieces to a dozen; rows of a number, and of more than a thread's share.
    std::vector<Moved> tables;
    for (const std::size_t width : {std::size_t{1}, std::size_t{97}, std::size_t{33'000}}) {
      const std::size_t rows = width > 1000 ? 150 : 4000, places = rows / 3;
      tables.push_back({.widths = {width, 3, 2 * width},
                        .places = places,
                        .rows = rows,
                        .count = random() % (places + 1),
                        .leaves = random() % 4 > 0,
                        .comes = random() % 4 > 0});
      tables.back().draw(random);
    }
    std::vector<Moved> wanted = tables;
    std::vector<MoveRows> ops;
    for (Moved& table : tables) ops.push_back(table.op(gpu.device()));
    ASSERT_TRUE(MovesByHost::takes(ops));
    moves.make_room(ops);
    moves.move(gpu.move_context(), ops);
    gpu.move_stream().synchronize();
    for (std::size_t t = 0; t < tables.size(); ++t) {
      wanted[t].move_here();
      EXPECT_EQ(tables[t].cache, wanted[t].cache) << "table " << t << ", turn " << turn;
      EXPECT_EQ(tables[t].home, wanted[t].home) << "table " << t << ", turn " << turn;
    }
    ASSERT_FALSE(HasFailure());
  }
}

TEST(MovesByHost, TakeNoRowsThatAreLongerThanAPiece) {
  const auto resources = ResourceManager::create({{0}}, 1);
  const auto op_of = [&](std::size_t width) {
    MoveRows op;
    op.cache.push_back(
        make_ref(static_cast<float*>(nullptr), {1, width}, resources->get_local_gpu(0).device()));
    return std::vector<MoveRows>{op};
  };
  const std::size_t most = RowPiece::kBytes / sizeof(float);
  EXPECT_TRUE(MovesByHost::takes(op_of(most)));
  EXPECT_FALSE(MovesByHost::takes(op_of(most + 1)));
}

TEST(MovesByHost, AreAskedForByAWord) {
  const auto resources = ResourceManager::create({{0}}, 1);
  setenv("HUGECTR_MOVE_ROWS", "hosts", 1);
  EXPECT_THROW(RowStaging(resources->get_local_gpu(0)), InvalidArgument);
  unsetenv("HUGECTR_MOVE_ROWS");
}

/// Turns of a loop in which either way takes so long; how many of them were the second's.
class Loop {
 public:
  std::size_t second_of(std::size_t turns, int first_us, int second_us, std::size_t hiccup = 0) {
    std::size_t seconds = 0;
    for (std::size_t i = 0; i < turns; ++i) {
      const bool second = way_.second(now_);
      seconds += second;
      now_ += std::chrono::microseconds(second ? second_us : first_us);
      if (hiccup > 0 && i % hiccup == 0) now_ += std::chrono::seconds(1);
    }
    return seconds;
  }
  FasterWay& way() { return way_; }
  void pass(std::chrono::seconds time) { now_ += time; }

 private:
  FasterWay way_;
  FasterWay::Clock::time_point now_{};
};

constexpr std::size_t kTrial = FasterWay::kFirst + 2 * (FasterWay::kSettling + FasterWay::kTried);

TEST(FasterWay, KeepsTheSecondWhereTurnsAreShorterWithIt) {
  Loop loop;
  EXPECT_EQ(loop.second_of(FasterWay::kFirst, 1000, 900), 0u);
  loop.second_of(kTrial - FasterWay::kFirst, 1000, 900);
  EXPECT_EQ(loop.second_of(FasterWay::kKept, 1000, 900), FasterWay::kKept);
}

TEST(FasterWay, KeepsTheFirstWhereLittleIsGained) {
  for (const int second : {995, 1000, 3000}) {
    Loop loop;
    EXPECT_EQ(loop.second_of(kTrial, 1000, second), FasterWay::kSettling + FasterWay::kTried);
    EXPECT_EQ(loop.second_of(FasterWay::kKept, 1000, second), 0u);
  }
}

TEST(FasterWay, TriesAgain) {
  Loop loop;
  loop.second_of(kTrial + FasterWay::kKept, 1000, 3000);
  loop.second_of(kTrial - FasterWay::kFirst, 1000, 500);
  EXPECT_EQ(loop.second_of(1000, 1000, 500), 1000u);
}

TEST(FasterWay, IsNotMisledByLongTurnsNorByTimeBetween) {
  Loop loop;
  loop.second_of(kTrial, 1000, 900, 5);
  EXPECT_EQ(loop.second_of(100, 1000, 900), 100u);
  Loop other;
  other.second_of(FasterWay::kFirst, 1000, 900);
  for (std::size_t i = FasterWay::kFirst; i < kTrial; ++i) {
    other.second_of(1, 1000, 900);
    if (i % 3 == 0) other.pass(std::chrono::seconds(1)), other.way().interrupt();
  }
  EXPECT_EQ(other.second_of(100, 1000, 900), 100u);
}

}  // namespace
}  // namespace hugectr::test
