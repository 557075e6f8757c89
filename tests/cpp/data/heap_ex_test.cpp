// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/heap_ex.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace hugectr {
namespace {

std::vector<CSRChunk> chunks(std::size_t count) { return std::vector<CSRChunk>(count); }

TEST(HeapEx, HandsOutChunksInSequenceOrder) {
  HeapEx heap(chunks(3));
  CSRChunk* taken[3];
  for (std::size_t i = 0; i < 3; ++i) {
    taken[i] = heap.checkout_credit();
    taken[i]->sequence = i;
  }
  heap.commit_ready(taken[2]);
  heap.commit_ready(taken[1]);
  EXPECT_FALSE(heap.has_ready(0));
  EXPECT_TRUE(heap.has_ready(1));
  heap.commit_ready(taken[0]);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(heap.pop_ready(i), taken[i]);
  heap.return_credit(taken[1]);
  EXPECT_EQ(heap.checkout_credit(), taken[1]);
}

TEST(HeapEx, TwoChunksServeManyWorkers) {
  HeapEx heap(chunks(2));
  std::atomic<std::size_t> next{0};
  std::mutex claim;
  std::vector<std::thread> workers;
  for (int i = 0; i < 8; ++i) {
    workers.emplace_back([&] {
      while (CSRChunk* chunk = heap.checkout_credit()) {
        {
          const std::lock_guard lock(claim);
          chunk->sequence = next++;
        }
        if (chunk->sequence % 3 == 0) std::this_thread::yield();
        chunk->samples = chunk->sequence * 7;
        heap.commit_ready(chunk);
      }
    });
  }
  for (std::size_t sequence = 0; sequence < 5000; ++sequence) {
    CSRChunk* chunk = heap.pop_ready(sequence);
    ASSERT_NE(chunk, nullptr);
    ASSERT_EQ(chunk->samples, sequence * 7);
    heap.return_credit(chunk);
  }
  heap.stop();
  for (std::thread& worker : workers) worker.join();
}

TEST(HeapEx, EndErrorAndStopWakeEveryone) {
  HeapEx heap(chunks(2));
  CSRChunk* chunk = heap.checkout_credit();
  chunk->sequence = 0;
  heap.commit_ready(chunk, std::make_exception_ptr(std::runtime_error("broken")));
  EXPECT_THROW(heap.pop_ready(0), std::runtime_error);
  heap.close(1);
  EXPECT_EQ(heap.checkout_credit(), nullptr);
  EXPECT_EQ(heap.pop_ready(1), nullptr);
  heap.reset();
  EXPECT_NE(heap.checkout_credit(), nullptr);
  std::thread waiting([&] { EXPECT_THROW(heap.pop_ready(0), std::logic_error); });
  heap.fail(std::make_exception_ptr(std::logic_error("lost")));
  waiting.join();
  heap.reset();
  std::thread stopped([&] { EXPECT_EQ(heap.pop_ready(0), nullptr); });
  heap.stop();
  stopped.join();
  EXPECT_EQ(heap.checkout_credit(), nullptr);
}

}  // namespace
}  // namespace hugectr
