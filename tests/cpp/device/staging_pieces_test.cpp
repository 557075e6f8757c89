// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/staging_pieces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr::test {
namespace {

using Calls = std::vector<std::string>;

/// An event that notes that it was waited for, and whose device has failed if `fails`.
class NotedEvent final : public Event {
 public:
  NotedEvent(Calls& calls, bool fails) : calls_(calls), fails_(fails) {}
  void synchronize() override {
    calls_.push_back("wait");
    if (fails_) throw DeviceError("the device has failed");
  }

 private:
  Calls& calls_;
  bool fails_;
};

/// Host memory that notes what is taken from it and given back.
class NotedMemory final : public MemoryResource {
 public:
  explicit NotedMemory(Calls& calls) : calls_(calls) {}
  DeviceId device() const override { return host_->device(); }
  void* allocate(std::size_t bytes, std::string_view owner) override {
    calls_.push_back(concat("take ", bytes, " for ", owner));
    return host_->allocate(bytes, owner);
  }
  void deallocate(void* data, std::size_t bytes) noexcept override {
    calls_.push_back(concat("free ", bytes));
    host_->deallocate(data, bytes);
  }
  std::unique_ptr<GrowableMemory> reserve_growable(std::size_t, std::string_view) override {
    return nullptr;
  }

 private:
  Calls& calls_;
  std::shared_ptr<MemoryResource> host_ = make_host_memory_resource();
};

/// A backend that has events and staging memory, nothing else. `good_events`: how many can be made.
class NotedBackend final : public DeviceBackend {
 public:
  explicit NotedBackend(bool events_fail, std::size_t good_events = 100)
      : events_fail_(events_fail), good_events_(good_events) {}
  DeviceType type() const override { return DeviceType::Cpu; }
  int device_count() const override { return 1; }
  void check_device(int) const override {}
  std::string device_name(int) const override { return "noted"; }
  std::unique_ptr<Stream> create_stream(DeviceId, const std::string&, StreamPriority) override {
    return nullptr;
  }
  std::unique_ptr<Event> create_event(DeviceId) override {
    if (good_events_-- == 0) throw DeviceError("no more events");
    return std::make_unique<NotedEvent>(calls, events_fail_);
  }
  std::shared_ptr<MemoryResource> memory_resource(DeviceId) override { return nullptr; }
  std::shared_ptr<MemoryResource> staging_resource(DeviceId) override {
    return std::make_shared<NotedMemory>(calls);
  }
  std::vector<std::unique_ptr<Communicator>> create_communicators(const std::vector<DeviceId>&,
                                                                  const JobRanks&) override {
    return {};
  }

  Calls calls;

 private:
  bool events_fail_;
  std::size_t good_events_;
};

const Calls kTakenWaitedFreed{"take 16777216 for pieces", "wait", "wait", "free 16777216"};

TEST(StagingPieces, TwoPiecesFollowEachOtherInTurn) {
  NotedBackend backend(false);
  const StagingPieces pieces(backend, DeviceId::host(), "pieces");
  EXPECT_EQ(pieces.data(1), pieces.data(0) + StagingPieces::kBytes);
  EXPECT_EQ(pieces.data(2), pieces.data(0));
  EXPECT_NE(&pieces.copied(0), &pieces.copied(1));
  EXPECT_EQ(&pieces.copied(0), &pieces.copied(2));
  std::fill_n(pieces.data(0), StagingPieces::kCount * StagingPieces::kBytes, char{1});
}

TEST(StagingPieces, MemoryGoesWhenBothCopiesHaveEnded) {
  NotedBackend backend(false);
  {
    const StagingPieces pieces(backend, DeviceId::host(), "pieces");
  }
  EXPECT_EQ(backend.calls, kTakenWaitedFreed);
}

TEST(StagingPieces, MemoryOfAFailedDeviceGoesWithoutAThrow) {
  NotedBackend backend(true);
  EXPECT_NO_THROW(StagingPieces(backend, DeviceId::host(), "pieces"));
  EXPECT_EQ(backend.calls, kTakenWaitedFreed);
}

TEST(StagingPieces, NothingIsKeptWhereAnEventCanNotBeMade) {
  NotedBackend backend(false, 1);
  EXPECT_THROW(StagingPieces(backend, DeviceId::host(), "pieces"), DeviceError);
  EXPECT_EQ(backend.calls, (Calls{"take 16777216 for pieces", "free 16777216"}));
}

}  // namespace
}  // namespace hugectr::test
