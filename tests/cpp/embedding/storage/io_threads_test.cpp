// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/storage/io_threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

TEST(IoThreads, DoEachJobOnceForSeveralCallers) {
  IoThreads threads(5);
  std::vector<std::vector<std::atomic<int>>> done(4);
  std::vector<std::thread> callers;
  for (auto& mine : done) {
    mine = std::vector<std::atomic<int>>(777);
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        threads.run(mine.size(), [&](std::size_t job, AlignedBuffer& buffer) {
          EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.with(5000)) % 4096, 0U);
          ++mine[job];
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const auto& mine : done) {
    for (const auto& count : mine) EXPECT_EQ(count, 20);
  }
  threads.run(0, [](std::size_t, AlignedBuffer&) { FAIL(); });
}

TEST(IoThreads, GiveTheFirstErrorToTheCallerAndGoOn) {
  IoThreads threads(3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> done = 0;
    EXPECT_THROW(threads.run(1000,
                             [&](std::size_t job, AlignedBuffer&) {
                               if (job % 10 == 7) throw DataError("no");
                               ++done;
                             }),
                 DataError);
    EXPECT_LT(done, 1000);
    const int before = done;
    threads.run(10, [&](std::size_t, AlignedBuffer&) { ++done; });
    EXPECT_EQ(done, before + 10);  // nothing of the first call is under way any more
  }
}

}  // namespace
}  // namespace hugectr
