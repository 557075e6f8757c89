// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/resource_manager.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/collective_ops.hpp"
#include "tests/cpp/comm/thread_process_groups.hpp"

namespace hugectr {
namespace {

TEST(ResourceManager, KnowsItsDevices) {
  const auto resources = ResourceManager::create({{0, 2, 5}}, 7);
  EXPECT_EQ(resources->get_local_gpu_count(), 3u);
  EXPECT_EQ(resources->get_global_gpu_count(), 3u);
  EXPECT_EQ(resources->get_num_process(), 1u);
  EXPECT_TRUE(resources->is_master_process());
  EXPECT_EQ(resources->get_local_gpu_device_id_list(), (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(resources->get_process_id_from_gpu_global_id(2), 0u);
  EXPECT_EQ(resources->get_gpu_local_id_from_global_id(2), 2u);
  EXPECT_EQ(resources->get_gpu_global_id_from_local_id(1), 1u);
  EXPECT_THROW(resources->get_local_gpu(3), InvalidArgument);
  EXPECT_EQ(resources->seed(), 7u);
  for (std::size_t i = 0; i < 3; ++i) {
    GPUResource& gpu = resources->get_local_gpu(i);
    EXPECT_EQ(gpu.get_local_id(), i);
    EXPECT_EQ(gpu.get_device_id(), resources->get_local_gpu_device_id_list()[i]);
    EXPECT_EQ(resources->get_device_memory_resource(i)->device(), gpu.device());
    EXPECT_EQ(resources->get_device_rmm_device_memory_resource(i)->device(), gpu.device());
    EXPECT_EQ(gpu.communicator().rank(), i);
    EXPECT_EQ(gpu.communicator().size(), 3u);
    EXPECT_EQ(gpu.compute_context().pool, &resources->pool());
    EXPECT_EQ(gpu.compute_context().device, gpu.device());
    EXPECT_NE(gpu.compute_context().communicator, gpu.plan_context().communicator);
    EXPECT_NE(gpu.compute_context().stream, gpu.plan_context().stream);
  }
}

TEST(ResourceManager, SeedZeroDrawsOne) {
  const auto a = ResourceManager::create({{0}}, 0);
  const auto b = ResourceManager::create({{0}}, 0);
  EXPECT_NE(a->seed(), 0u);
  EXPECT_NE(a->seed(), b->seed());
}

TEST(ResourceManager, RefusesWhatCanNotWork) {
  EXPECT_THROW(ResourceManager::create({}, 1), InvalidArgument);
  EXPECT_THROW(ResourceManager::create({{0, 0}}, 1), InvalidArgument);
  EXPECT_THROW(ResourceManager::create({{-1}}, 1), InvalidArgument);
  try {
    ResourceManager::create({{0}, {0}}, 1);
    FAIL();
  } catch (const InvalidArgument& e) {
    EXPECT_NE(std::string(e.what()).find("hugectr launch"), std::string::npos);
  }
  const auto group = ThreadProcessGroup::make(2)[0];
  EXPECT_THROW(ResourceManager::create({{0}}, 1, DeviceType::Cpu, DeviceLayout::LocalFirst, group),
               InvalidArgument);
}

void check_job(DeviceLayout layout, const std::vector<std::vector<std::size_t>>& global_ids) {
  const auto groups = ThreadProcessGroup::make(2);
  std::vector<std::shared_ptr<ResourceManager>> managers(2);
  std::vector<std::vector<double>> sums(2, std::vector<double>(2));
  std::vector<std::thread> processes;
  for (std::size_t p = 0; p < 2; ++p) {
    processes.emplace_back([&, p] {
      managers[p] =
          ResourceManager::create({{0, 1}, {2, 3}}, 0, DeviceType::Cpu, layout, groups[p]);
      managers[p]->for_each_device([&](std::size_t id) {
        GPUResource& gpu = managers[p]->get_local_gpu(id);
        sums[p][id] = static_cast<double>(1u << gpu.get_global_id());
        gpu.communicator().all_reduce(make_ref(&sums[p][id], {1}, gpu.device()),
                                      gpu.compute_stream());
        gpu.compute_stream().synchronize();
      });
    });
  }
  for (auto& process : processes) process.join();
  EXPECT_EQ(sums, (std::vector<std::vector<double>>(2, std::vector<double>(2, 15.0))));
  EXPECT_EQ(managers[0]->seed(), managers[1]->seed());
  for (std::size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(managers[p]->get_process_id(), p);
    EXPECT_EQ(managers[p]->get_global_gpu_count(), 4u);
    EXPECT_EQ(managers[p]->is_master_process(), p == 0);
    for (std::size_t id = 0; id < 2; ++id) {
      EXPECT_EQ(managers[p]->get_local_gpu(id).get_global_id(), global_ids[p][id]);
    }
  }
  managers[0].reset();  // the other process may still work
}

TEST(ResourceManager, DevicesOfSeveralProcessesAreOneJob) {
  check_job(DeviceLayout::LocalFirst, {{0, 1}, {2, 3}});
  check_job(DeviceLayout::NodeFirst, {{0, 2}, {1, 3}});
}

TEST(ForEachDevice, EveryDeviceOnItsOwnThread) {
  const auto resources = ResourceManager::create({{0, 1, 2, 3}}, 1);
  std::vector<std::thread::id> first(4), second(4), planning(4);
  resources->for_each_device([&](std::size_t i) { first[i] = std::this_thread::get_id(); });
  resources->for_each_device([&](std::size_t i) { second[i] = std::this_thread::get_id(); });
  resources->for_each_device_planning(
      [&](std::size_t i) { planning[i] = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  std::set<std::thread::id> all(first.begin(), first.end());
  all.insert(planning.begin(), planning.end());
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(all.count(std::this_thread::get_id()), 0u);
}

TEST(ForEachDevice, OneDeviceRunsInTheCaller) {
  const auto resources = ResourceManager::create({{3}}, 1);
  std::thread::id id;
  resources->for_each_device([&](std::size_t) { id = std::this_thread::get_id(); });
  EXPECT_EQ(id, std::this_thread::get_id());
  EXPECT_THROW(resources->for_each_device([](std::size_t) { throw DataError("x"); }), DataError);
  EXPECT_NO_THROW(resources->for_each_device([](std::size_t) {}));
}

TEST(ForEachDevice, StepAndPlanOverlap) {
  const auto resources = ResourceManager::create({{0, 1}}, 1);
  std::atomic<int> inside{0};
  auto meet = [&](std::size_t) {
    ++inside;
    while (inside < 4) std::this_thread::yield();
  };
  std::thread planner([&] { resources->for_each_device_planning(meet); });
  resources->for_each_device(meet);
  planner.join();
}

TEST(ForEachDevice, CallFromInsideIsRefused) {
  for (const auto& row : {std::vector<int>{0}, std::vector<int>{0, 1}}) {
    const auto resources = ResourceManager::create({row}, 1);
    EXPECT_THROW(resources->for_each_device(
                     [&](std::size_t) { resources->for_each_device([](std::size_t) {}); }),
                 InvalidArgument);
  }
}

TEST(ForEachDevice, OneFailureFreesTheOthersAndIsWhatTheCallerSees) {
  for (std::size_t failing = 0; failing < 4; ++failing) {
    const auto resources = ResourceManager::create({{0, 1, 2, 3}}, 1);
    std::vector<float> data(4, 1.0f);
    try {
      resources->for_each_device([&](std::size_t i) {
        if (i == failing) throw DataError("device is broken");
        GPUResource& gpu = resources->get_local_gpu(i);
        run(gpu.compute_context(), AllReduce{.data = make_ref(&data[i], {1}, gpu.device())});
        gpu.compute_stream().synchronize();  // hangs if nobody aborts
      });
      FAIL();
    } catch (const DataError& e) {
      EXPECT_STREQ(e.what(), "device is broken");
    }
  }
}

TEST(ForEachDevice, FailureOfAQueuedTaskFreesTheOthersToo) {
  const auto resources = ResourceManager::create({{0, 1, 2}}, 1);
  std::vector<float> data(3, 1.0f);
  resources->for_each_device([&](std::size_t i) {
    GPUResource& gpu = resources->get_local_gpu(i);
    if (i == 1) gpu.compute_stream().submit([] { throw DataError("queued task is broken"); });
    run(gpu.compute_context(), AllReduce{.data = make_ref(&data[i], {1}, gpu.device())});
  });
  try {
    resources->synchronize();
    FAIL();
  } catch (const DataError& e) {
    EXPECT_STREQ(e.what(), "queued task is broken");
  }
}

TEST(ForEachDevice, AFailedPlanLeavesTheStepAlone) {
  const auto resources = ResourceManager::create({{0, 1}}, 1);
  EXPECT_THROW(resources->for_each_device_planning([](std::size_t i) {
    if (i == 0) throw DataError("bad key");
  }),
               DataError);
  std::vector<float> data{1.0f, 2.0f};
  resources->for_each_device([&](std::size_t i) {
    GPUResource& gpu = resources->get_local_gpu(i);
    run(gpu.compute_context(), AllReduce{.data = make_ref(&data[i], {1}, gpu.device())});
    gpu.compute_stream().synchronize();
  });
  EXPECT_EQ(data, (std::vector<float>{3.0f, 3.0f}));
}

TEST(ForEachDevice, ThePlanAfterAFailedOneHasAWorkingCommunicator) {
  const auto resources = ResourceManager::create({{0, 1, 2}}, 1);
  for (std::size_t failing = 0; failing < 3; ++failing) {
    std::vector<float> data{1.0f, 2.0f, 4.0f};
    const auto plan = [&](std::size_t i, bool fails) {
      if (fails && i == failing) throw DataError("bad key");
      GPUResource& gpu = resources->get_local_gpu(i);
      run(gpu.plan_context(), AllReduce{.data = make_ref(&data[i], {1}, gpu.device())});
      if (i != 1) gpu.plan_stream().synchronize();  // device 1 leaves its collective queued
    };
    EXPECT_THROW(resources->for_each_device_planning([&](std::size_t i) { plan(i, true); }),
                 DataError);
    data = {1.0f, 2.0f, 4.0f};
    for (int repeat = 0; repeat < 2; ++repeat) {
      resources->for_each_device_planning([&](std::size_t i) { plan(i, false); });
      resources->synchronize();
    }
    EXPECT_EQ(data, (std::vector<float>{21.0f, 21.0f, 21.0f}));
  }
}

TEST(ResourceManager, GoesAwayWithACollectiveThatNeverCompletes) {
  std::vector<float> data(2, 1.0f);
  const auto resources = ResourceManager::create({{0, 1}}, 1);
  GPUResource& gpu = resources->get_local_gpu(0);
  run(gpu.compute_context(), AllReduce{.data = make_ref(data.data(), {1}, gpu.device())});
}

}  // namespace
}  // namespace hugectr
