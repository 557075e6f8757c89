// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/resource_manager.hpp"

#include <pthread.h>

#include <exception>
#include <mutex>
#include <random>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/forced_unwind.hpp"
#include "core/cpp/device/by_node.hpp"
#include "core/cpp/device/device_threads.hpp"

namespace hugectr {
namespace {

/// One pool for all resource managers alive: two models in a process share the cores too.
/// A forked child makes its own.
std::shared_ptr<ThreadPool> process_pool() {
  struct Shared {
    std::mutex mutex;
    std::weak_ptr<ThreadPool> pool;
  };
  static Shared* shared = [] {
    pthread_atfork(nullptr, nullptr, [] { shared = new Shared; });
    return new Shared;
  }();
  const std::lock_guard lock(shared->mutex);
  std::shared_ptr<ThreadPool> pool = shared->pool.lock();
  if (!pool) shared->pool = pool = std::make_shared<ThreadPool>();
  return pool;
}

std::uint64_t draw_seed() {
  std::random_device random;
  std::uint64_t seed = 0;
  while (seed == 0) seed = (std::uint64_t{random()} << 32) | random();
  return seed;
}

/// The seed of process 0, drawn when it is 0.
std::uint64_t common_seed(std::uint64_t seed, IProcessGroup* processes) {
  if (seed == 0) seed = draw_seed();
  if (!processes) return seed;
  std::vector<std::uint64_t> all(processes->size());
  processes->all_gather(&seed, sizeof(seed), all.data());
  return all.front();
}

}  // namespace

ResourceManager::ResourceManager(DeviceMap map, DeviceType type)
    : map_(std::move(map)), type_(type) {}

std::shared_ptr<ResourceManager> ResourceManager::create(const std::vector<std::vector<int>>& vvgpu,
                                                         std::uint64_t seed, DeviceType type,
                                                         DeviceLayout layout,
                                                         std::shared_ptr<IProcessGroup> processes) {
  const std::size_t process_count = processes ? processes->size() : 1;
  HCTR_CHECK(vvgpu.size() == process_count, "vvgpu has ", vvgpu.size(),
             " rows, one per process, and the job has ", process_count,
             process_count == 1 ? " process: start the others with mpirun or `hugectr launch`, or "
                                  "give one row with all devices, e.g. [[0, 1]]"
                                : " processes: give each of them a row");
  if (process_count == 1) processes = nullptr;
  DeviceMap map(vvgpu, processes ? processes->rank() : 0, layout);
  DeviceBackend& backend = DeviceBackend::get(type);
  std::vector<DeviceId> devices;
  for (const int id : map.get_device_list()) {
    backend.check_device(id);
    devices.push_back({type, id});
  }

  std::shared_ptr<ResourceManager> manager(new ResourceManager(std::move(map), type));
  ResourceManager* const self = manager.get();
  self->processes_ = processes;
  self->cpu_ = std::make_unique<CPUResource>(common_seed(seed, processes.get()), process_pool());
  const NodesOfJob nodes = processes ? find_nodes(*processes) : NodesOfJob{};
  const auto communicators_named = [&](const char* name) {
    JobRanks job;
    for (std::size_t id = 0; id < self->map_.size(); ++id) {
      job.process_of_rank.push_back(self->map_.get_pid(id));
    }
    if (processes) job.processes = processes->duplicate(name);
    if (!nodes.used()) return backend.create_communicators(devices, job);
    std::vector<std::shared_ptr<MemoryResource>> memory;
    for (const DeviceId device : devices) memory.push_back(backend.memory_resource(device));
    return make_node_communicators(
        job, nodes.node_of_process, memory,
        [&](const std::vector<std::size_t>& local, const JobRanks& part) {
          std::vector<DeviceId> some;
          for (const std::size_t i : local) some.push_back(devices[i]);
          return backend.create_communicators(some, part);
        });
  };
  auto of_step = communicators_named("step");
  auto of_plan = communicators_named("plan");
  auto of_exchange = communicators_named("exchange");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    self->gpus_.push_back(std::make_unique<GPUResource>(
        backend, devices[i], i, self->map_.get_global_id(i),
        DeviceCommunicators{std::move(of_step[i]), std::move(of_plan[i]),
                            std::move(of_exchange[i])},
        &self->cpu_->pool()));
  }
  // A failed plan leaves the step that is under way alone; a failed step takes the plan with it.
  const auto abort_all = [self](const std::string& reason) {
    for (auto& gpu : self->gpus_) gpu->abort(reason);
  };
  self->step_threads_ = std::make_unique<DeviceThreads>(devices.size(), "hctr-step", abort_all);
  self->plan_threads_ = std::make_unique<DeviceThreads>(
      devices.size(), "hctr-plan", [self](const std::string& reason) {
        for (auto& gpu : self->gpus_) gpu->plan_context().communicator->abort(reason);
        self->plan_failed_ = true;
      });
  if (nodes.used() && nodes.by_node == ByNode::Timed) {
    self->step_threads_->run([self](std::size_t id) {
      GPUResource& gpu = *self->gpus_[id];
      std::vector<double> found;
      for (const OpContext& context :
           {gpu.compute_context(), gpu.plan_context(), gpu.exchange_context()}) {
        context.communicator->tune(*context.stream, found);
      }
    });
  }
  return manager;
}

ResourceManager::~ResourceManager() {
  step_threads_.reset();
  plan_threads_.reset();
  // Streams finish their queues when they go; none may wait there for a rank that never comes. To
  // leave ends the communicators of a device from several threads at once, which NCCL does not
  // promise to stand: it is for what can not be waited for.
  const bool may_wait = at_rest_ && get_num_process() == 1;
  if (map_.size() == 1) return;
  if (may_wait) {
    for (auto& gpu : gpus_) gpu->rest();
  } else {
    leave("the ResourceManager is gone");
  }
}

void ResourceManager::leave(const std::string& reason) noexcept {
  for (auto& gpu : gpus_) gpu->leave(reason);
  for (auto& gpu : gpus_) gpu->wait_until_left();
}

std::size_t ResourceManager::get_process_id_from_gpu_global_id(std::size_t global_id) const {
  return map_.get_pid(global_id);
}

std::size_t ResourceManager::get_gpu_local_id_from_global_id(std::size_t global_id) const {
  const int local_id = map_.get_local_id(global_id);
  HCTR_CHECK(local_id >= 0, "global device ", global_id, " belongs to process ",
             map_.get_pid(global_id), ", this is process ", map_.get_process_id());
  return static_cast<std::size_t>(local_id);
}

std::size_t ResourceManager::get_gpu_global_id_from_local_id(std::size_t local_id) const {
  return map_.get_global_id(local_id);
}

std::shared_ptr<MemoryResource> ResourceManager::get_device_memory_resource(
    std::size_t local_id) const {
  HCTR_CHECK(local_id < gpus_.size(), "no local device ", local_id, ": this process has ",
             gpus_.size());
  return gpus_[local_id]->memory_resource();
}

GPUResource& ResourceManager::get_local_gpu(std::size_t local_id) {
  HCTR_CHECK(local_id < gpus_.size(), "no local device ", local_id, ": this process has ",
             gpus_.size());
  return *gpus_[local_id];
}

void ResourceManager::for_each_device(const std::function<void(std::size_t)>& f) {
  step_threads_->run(f);
}

void ResourceManager::for_each_device_planning(const std::function<void(std::size_t)>& f) {
  if (plan_failed_.exchange(false)) {
    for (auto& gpu : gpus_) {
      try {
        gpu->plan_stream().synchronize();
      } catch (const std::exception&) {  // the failed plan has been reported
      }
    }
    gpus_.front()->plan_context().communicator->renew();
  }
  plan_threads_->run(f);
}

HCTR_MAY_BE_UNWOUND void ResourceManager::synchronize() {
  std::exception_ptr first;
  bool first_is_comm = false;
  auto keep = [&](bool comm) {
    // The cause goes before the CommErrors that it brought to other devices.
    if (first && (comm || !first_is_comm)) return;
    first = std::current_exception();
    first_is_comm = comm;
  };
  for (auto& gpu : gpus_) {
    for (Stream* stream : gpu->streams()) {
      try {
        stream->synchronize();
      }
      HCTR_CATCH_FORCED_UNWIND()
      catch (const CommError&) {
        keep(true);
      }
      catch (...) {
        keep(false);
      }
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace hugectr
