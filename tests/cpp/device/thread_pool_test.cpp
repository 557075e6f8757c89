// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/thread_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(ThreadPool, EveryChunkRunsOnce) {
  for (const std::size_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const std::size_t chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(chunks);
      pool.run_chunks(chunks, [&](std::size_t chunk) { ++runs[chunk]; });
      for (const auto& count : runs) ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, PoolThreadsTakePart) {
  ThreadPool pool(2);
  std::atomic<int> inside{0};
  // Both chunks wait for each other: only two threads can get them done.
  pool.run_chunks(2, [&](std::size_t) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 2);
}

TEST(ThreadPool, ResultsOfOneLoopAreSeenByTheNext) {
  ThreadPool pool(4);
  std::vector<int> values(500, 0);
  for (int round = 1; round <= 300; ++round) {
    pool.run_chunks(50, [&](std::size_t chunk) {
      for (std::size_t i = chunk * 10; i < chunk * 10 + 10; ++i) values[499 - i] += 1;
    });
    pool.run_chunks(25, [&](std::size_t chunk) {
      for (std::size_t i = chunk * 20; i < chunk * 20 + 20; ++i) ASSERT_EQ(values[i], round);
    });
  }
}

TEST(ThreadPool, NestedLoopsFromManyThreads) {
  ThreadPool pool(3);
  std::atomic<std::size_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 8; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        parallel_for(pool, 64, 4, [&](std::size_t begin, std::size_t end) {
          parallel_for(pool, end - begin, 1, [&](std::size_t b, std::size_t e) {
            parallel_for(pool, 3, 1,
                         [&](std::size_t x, std::size_t y) { sum += (e - b) * (y - x); });
          });
        });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, 8u * 20 * 64 * 3);
}

TEST(ThreadPool, ExceptionsReachTheirCallerAndNobodyElse) {
  ThreadPool pool(4);
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&pool, t] {
      for (int round = 0; round < 50; ++round) {
        std::atomic<int> runs{0};
        auto loop = [&] {
          pool.run_chunks(40, [&](std::size_t chunk) {
            ++runs;
            if (t % 2 == 0 && chunk == 11) throw DataError(concat("caller ", t));
          });
        };
        if (t % 2 == 0) {
          try {
            loop();
            ADD_FAILURE();
          } catch (const DataError& e) {
            EXPECT_EQ(e.what(), concat("caller ", t));
          }
        } else {
          loop();
          EXPECT_EQ(runs, 40);
        }
      }
    });
  }
  for (auto& caller : callers) caller.join();
}

TEST(ParallelFor, PiecesDependOnSizeAndGrainOnly) {
  using Pieces = std::set<std::pair<std::size_t, std::size_t>>;
  for (const std::size_t threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const auto& [n, grain] :
         {std::pair<std::size_t, std::size_t>{10, 4}, {8, 4}, {3, 100}, {5, 0}}) {
      Pieces pieces, expected;
      std::mutex mutex;
      parallel_for(pool, n, grain, [&](std::size_t begin, std::size_t end) {
        const std::lock_guard lock(mutex);
        pieces.insert({begin, end});
      });
      const std::size_t step = grain == 0 ? 1 : grain;
      for (std::size_t i = 0; i < n; i += step) expected.insert({i, std::min(n, i + step)});
      EXPECT_EQ(pieces, expected);
    }
    parallel_for(pool, 0, 4, [](std::size_t, std::size_t) { FAIL(); });
  }
}

TEST(ThreadPool, SizeFromTheEnvironment) {
  setenv("HUGECTR_NUM_THREADS", "3", 1);
  EXPECT_EQ(ThreadPool().size(), 3u);
  setenv("HUGECTR_NUM_THREADS", "many", 1);
  EXPECT_THROW(ThreadPool(), InvalidArgument);
  unsetenv("HUGECTR_NUM_THREADS");
  EXPECT_GE(ThreadPool().size(), 1u);
}

}  // namespace
}  // namespace hugectr
