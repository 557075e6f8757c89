// SPDX-License-Identifier: Apache-2.0
// What threads of devices call may end them: an interpreter that finalizes does. Then nobody may
// abort, wait for ever, or find the next call without a thread.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/device/cpu_stream.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "tests/cpp/comm/thread_process_groups.hpp"

namespace hugectr {
namespace {

void expect_told(const std::function<void()>& call) {
  try {
    call();
    FAIL() << "a thread was ended, and nobody said so";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("a thread was ended"), std::string::npos)
        << error.what();
  }
}

TEST(EndedThread, OfAStreamIsItsErrorAndMarksAreSet) {
  const DeviceId device{DeviceType::Cpu, 0};
  const auto stream = make_cpu_stream(device, "ends"), other = make_cpu_stream(device, "waits");
  const auto event = make_cpu_event();
  bool after = false, later = false;
  stream->submit([] { pthread_exit(nullptr); });
  stream->submit([&] { after = true; });
  stream->record(*event);
  other->wait(*event);
  other->synchronize();
  expect_told([&] { stream->synchronize(); });
  EXPECT_FALSE(after);
  stream->submit([&] { later = true; });
  stream->synchronize();
  EXPECT_TRUE(later);
}

TEST(EndedThread, OfADeviceIsAnErrorOfTheRound) {
  const auto resources = ResourceManager::create({{0, 1}}, 1);
  expect_told([&] {
    resources->for_each_device([](std::size_t id) {
      if (id == 1) pthread_exit(nullptr);
    });
  });
  const auto fail = [](std::size_t) { throw DataError("as before"); };
  EXPECT_THROW(resources->for_each_device(fail), DataError);
  std::atomic<int> calls{0};
  resources->for_each_device([&](std::size_t) { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(EndedThread, OfThePoolIsAnErrorOfTheLoop) {
  ThreadPool pool(3);
  const auto own = std::this_thread::get_id();
  std::atomic<int> inside{0};
  expect_told([&] {
    pool.run_chunks(3, [&](std::size_t) {
      ++inside;
      while (inside < 3) std::this_thread::yield();
      if (std::this_thread::get_id() != own) pthread_exit(nullptr);
    });
  });
  EXPECT_THROW(pool.run_chunks(100, [](std::size_t) { throw DataError("as before"); }), DataError);
  std::atomic<int> chunks{0};
  pool.run_chunks(100, [&](std::size_t) { ++chunks; });
  EXPECT_EQ(chunks, 100);
}

TEST(EndedThread, ThatCallsThePoolWaitsForTheOthers) {
  ThreadPool pool(3);
  std::atomic<int> inside{0}, left{0};
  std::thread([&] {
    const auto own = std::this_thread::get_id();
    pool.run_chunks(3, [&, own](std::size_t) {
      ++inside;
      while (inside < 3) std::this_thread::yield();
      if (std::this_thread::get_id() == own) pthread_exit(nullptr);
      ++left;
    });
  }).join();
  EXPECT_EQ(left, 2);
}

/// A process whose exchanges end the thread that makes them.
class EndingGroup final : public IProcessGroup {
 public:
  explicit EndingGroup(std::shared_ptr<IProcessGroup> inner) : inner_(std::move(inner)) {}
  std::size_t rank() const override { return inner_->rank(); }
  std::size_t size() const override { return inner_->size(); }
  double limit_seconds() const override { return inner_->limit_seconds(); }
  void all_to_all(const void*, const std::vector<std::size_t>&, void*,
                  const std::vector<std::size_t>&, double) override {
    pthread_exit(nullptr);
  }
  std::shared_ptr<IProcessGroup> duplicate(const std::string& name) override {
    return std::make_shared<EndingGroup>(inner_->duplicate(name));
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  std::shared_ptr<IProcessGroup> inner_;
};

TEST(EndedThread, InAnExchangeOfProcessesIsAnErrorOfAllRanks) {
  const auto ending = std::make_shared<EndingGroup>(ThreadProcessGroup::make(2)[0]);
  auto communicators = make_host_communicators({{0, 0, 1}, ending});
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<float> values(2, 1.0f);
  for (int r = 0; r < 2; ++r) streams.push_back(make_cpu_stream({DeviceType::Cpu, r}, "rank"));
  for (std::size_t r = 0; r < 2; ++r) {
    communicators[r]->all_reduce(
        make_ref(&values[r], {1}, DeviceId{DeviceType::Cpu, static_cast<int>(r)}), *streams[r]);
  }
  for (const auto& stream : streams) expect_told([&] { stream->synchronize(); });
}

}  // namespace
}  // namespace hugectr
