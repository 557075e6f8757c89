// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/device/device_map.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/device/staging_pieces.hpp"
#include "core/cpp/device/stream.hpp"
#include "core/cpp/device/thread_pool.hpp"

namespace hugectr {

/// What belongs to the host of this process.
class HCTR_API CPUResource {
 public:
  CPUResource(std::uint64_t seed, std::shared_ptr<ThreadPool> pool);
  /// The job's seed: every random number is drawn from it and a counter.
  std::uint64_t seed() const { return seed_; }
  ThreadPool& pool() const { return *pool_; }

 private:
  std::uint64_t seed_;
  std::shared_ptr<ThreadPool> pool_;
};

/// One for each of the streams whose collectives overlap.
struct DeviceCommunicators {
  std::unique_ptr<Communicator> step, plan, exchange;

  std::array<Communicator*, 3> all() const { return {step.get(), plan.get(), exchange.get()}; }
};

/// What belongs to one local device: a GPU, or a virtual CPU device under the same name.
class HCTR_API GPUResource {
 public:
  GPUResource(DeviceBackend& backend, DeviceId device, std::size_t local_id, std::size_t global_id,
              DeviceCommunicators communicators, ThreadPool* pool);
  ~GPUResource();

  DeviceId device() const { return device_; }
  int get_device_id() const { return device_.index; }
  std::size_t get_local_id() const { return local_id_; }
  std::size_t get_global_id() const { return global_id_; }
  Stream& compute_stream() { return *compute_stream_; }
  Stream& memcpy_stream() { return *memcpy_stream_; }
  Stream& plan_stream() { return *plan_stream_; }
  Stream& exchange_stream() { return *exchange_stream_; }
  /// Where rows of tiers travel while plans that come later are made. Made when first asked for, by
  /// one thread.
  Stream& move_stream();
  /// Where rows come to the device while others leave it by the move stream. Made when first asked
  /// for, by one thread.
  Stream& arrive_stream();
  /// For rows that stay on the device while others travel on another stream. Made when first asked
  /// for, by one thread.
  Stream& staying_stream();
  /// All there are.
  std::vector<Stream*> streams();
  Communicator& communicator() { return *communicators_.step; }
  std::unique_ptr<Event> create_event() { return backend_.create_event(device_); }
  std::shared_ptr<MemoryResource> memory_resource() { return backend_.memory_resource(device_); }
  std::shared_ptr<MemoryResource> staging_resource() { return backend_.staging_resource(device_); }
  /// Made when first asked for. For one thread at a time.
  StagingPieces& staging_pieces();

  /// Contexts to run ops on the device's streams. The plan and the exchange of gradients have a
  /// communicator of their own each, because their collectives overlap those of the step.
  OpContext compute_context();
  OpContext plan_context();
  OpContext exchange_context();
  /// Without a communicator.
  OpContext move_context();
  OpContext arrive_context();
  OpContext staying_context();
  /// Makes pending and later collectives of the device throw CommError(reason): those of all
  /// processes (abort) or of this one (leave).
  void abort(const std::string& reason) noexcept;
  void leave(const std::string& reason) noexcept;
  void rest() noexcept;
  void wait_until_left() noexcept;
  /// Whether compute contexts made from now on let float32 products use tf32.
  void set_tf32(bool tf32) { tf32_ = tf32; }
  /// Whether products of compute contexts made from now on choose their algorithm by timing those
  /// that give the same bits.
  void set_algorithm_search(bool search) { algorithm_search_ = search; }

 private:
  DeviceBackend& backend_;
  DeviceId device_;
  std::size_t local_id_, global_id_;
  DeviceCommunicators communicators_;
  ThreadPool* pool_;
  bool tf32_ = false, algorithm_search_ = false;
  std::unique_ptr<Stream> compute_stream_, memcpy_stream_, plan_stream_, exchange_stream_,
      move_stream_, arrive_stream_, staying_stream_;
  std::unique_ptr<StagingPieces> staging_pieces_;
};

/// Devices, streams, threads, seeds and communicators of this process.
class HCTR_API ResourceManager {
 public:
  /// vvgpu: one row of device ids per process. seed 0 draws one from the system's random device,
  /// the same for all processes. `processes` connects them (null: there is one); collective then.
  static std::shared_ptr<ResourceManager> create(
      const std::vector<std::vector<int>>& vvgpu, std::uint64_t seed,
      DeviceType type = DeviceType::Cpu, DeviceLayout layout = DeviceLayout::LocalFirst,
      std::shared_ptr<IProcessGroup> processes = nullptr);
  ~ResourceManager();

  std::size_t get_local_gpu_count() const { return gpus_.size(); }
  std::size_t get_global_gpu_count() const { return map_.size(); }
  std::size_t get_num_process() const { return map_.num_processes(); }
  std::size_t get_process_id() const { return map_.get_process_id(); }
  bool is_master_process() const { return get_process_id() == 0; }
  /// What connects the processes of the job, or null when this is the only one. For the thread that
  /// drives the session; a thread of its own needs a duplicate().
  const std::shared_ptr<IProcessGroup>& processes() const { return processes_; }
  DeviceType device_type() const { return type_; }

  const std::vector<int>& get_local_gpu_device_id_list() const { return map_.get_device_list(); }
  std::size_t get_process_id_from_gpu_global_id(std::size_t global_id) const;
  std::size_t get_gpu_local_id_from_global_id(std::size_t global_id) const;
  std::size_t get_gpu_global_id_from_local_id(std::size_t local_id) const;
  std::shared_ptr<MemoryResource> get_device_memory_resource(std::size_t local_id) const;
  /// Old name of get_device_memory_resource.
  std::shared_ptr<MemoryResource> get_device_rmm_device_memory_resource(std::size_t id) const {
    return get_device_memory_resource(id);
  }

  CPUResource& get_local_cpu() { return *cpu_; }
  GPUResource& get_local_gpu(std::size_t local_id);
  ThreadPool& pool() { return cpu_->pool(); }
  std::uint64_t seed() const { return cpu_->seed(); }

  /// Runs f(local_id) once per local device, each on that device's own host thread, and waits.
  /// The first exception is rethrown after all have returned; the others' communicators are
  /// aborted with its text, so nobody waits for the one that failed.
  void for_each_device(const std::function<void(std::size_t)>& f);
  /// The same on a second set of threads, so that planning overlaps for_each_device. A plan that
  /// failed has changed nothing, so the next one gets a working communicator again. A step that
  /// failed may have updated some devices only: its communicators stay aborted.
  void for_each_device_planning(const std::function<void(std::size_t)>& f);
  /// Makes pending and later collectives of this process throw CommError(reason), wherever they
  /// wait; other processes are not told. From any thread.
  void leave(const std::string& reason) noexcept;
  /// Waits for all work of all streams; rethrows the first error.
  void synchronize();
  /// All has been waited for and nothing comes any more: communicators of one process then end one
  /// after the other and without an abort, when this object does. Without it they are left first,
  /// all at once, so that none waits for a rank that never comes.
  void rest() { at_rest_ = true; }

 private:
  ResourceManager(DeviceMap map, DeviceType type);
  class DeviceThreads;
  DeviceMap map_;
  DeviceType type_;
  std::shared_ptr<IProcessGroup> processes_;
  std::unique_ptr<CPUResource> cpu_;
  std::vector<std::unique_ptr<GPUResource>> gpus_;
  bool at_rest_ = false;
  std::unique_ptr<DeviceThreads> step_threads_, plan_threads_;
  std::atomic<bool> plan_failed_ = false;
};

}  // namespace hugectr
