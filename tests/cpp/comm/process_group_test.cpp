// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/process_group.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "core/cpp/base/error.hpp"
#include "tests/cpp/comm/thread_process_groups.hpp"

namespace hugectr {
namespace {

template <class F>
void in_processes(std::size_t size, const F& f) {
  const auto groups = ThreadProcessGroup::make(size);
  std::vector<std::thread> threads;
  for (const auto& group : groups) threads.emplace_back([&f, group] { f(*group); });
  for (auto& thread : threads) thread.join();
}

TEST(ProcessGroup, GathersEqualAndUnequalData) {
  in_processes(4, [](IProcessGroup& group) {
    const std::size_t own = 10 + group.rank();
    std::vector<std::size_t> all(4);
    group.all_gather(&own, sizeof(own), all.data());
    EXPECT_EQ(all, (std::vector<std::size_t>{10, 11, 12, 13}));
    const auto texts = group.all_gather_any(
        std::vector<char>(group.rank(), static_cast<char>('a' + group.rank())));
    ASSERT_EQ(texts.size(), 4u);
    for (std::size_t p = 0; p < 4; ++p) {
      EXPECT_EQ(texts[p], std::vector<char>(p, static_cast<char>('a' + p)));
    }
  });
}

TEST(ProcessGroup, CallbacksAreCheckedAndPassedOn) {
  ProcessGroupCallbacks callbacks;
  EXPECT_THROW(make_process_group(callbacks), InvalidArgument);
  std::string reason;
  callbacks.size = 2;
  callbacks.rank = 2;
  callbacks.all_to_all = [](const void*, const std::vector<std::size_t>&, void*,
                            const std::vector<std::size_t>&,
                            double) { throw CommError("not today"); };
  callbacks.duplicate = [&](const std::string&) { return callbacks; };
  callbacks.abort = [&](const std::string& text) { reason = text; };
  EXPECT_THROW(make_process_group(callbacks), InvalidArgument);
  callbacks.rank = 1;
  const auto group = make_process_group(callbacks);
  EXPECT_EQ(group->rank(), 1u);
  EXPECT_THROW(group->duplicate("data")->all_to_all(nullptr, {0, 0}, nullptr, {0, 0}), CommError);
  EXPECT_THROW(group->all_to_all(nullptr, {0}, nullptr, {0, 0}), InvalidArgument);
  group->abort("enough");
  EXPECT_EQ(reason, "enough");
  group->abort_from_here("enough");
  EXPECT_EQ(reason, "process 1: enough");
}

}  // namespace
}  // namespace hugectr
