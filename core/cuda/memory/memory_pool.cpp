// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/memory/memory_pool.hpp"

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>

#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/status.hpp"

namespace hugectr::cuda {
namespace {

struct Pool {
  cudaMemPool_t pool = nullptr;
  cudaStream_t stream = nullptr;
};

struct Pools {
  std::mutex mutex;
  std::map<int, Pool> of_device;
  std::map<int, std::set<int>> access;  ///< [owner] -> others that reach its memory
};

Pools& pools() {
  static auto* const object = new Pools;  // static objects may free memory when they go
  return *object;
}

void set_access(cudaMemPool_t pool, int device) {
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = device;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  HCTR_TRY(cudaMemPoolSetAccess(pool, &access, 1));
}

/// Call with the mutex held.
Pool& pool_of(Pools& all, int device) {
  Pool& entry = all.of_device[device];
  if (entry.pool != nullptr) return entry;
  const DeviceGuard guard(device);
  if (entry.stream == nullptr) {
    HCTR_TRY(cudaStreamCreateWithFlags(&entry.stream, cudaStreamNonBlocking));
  }
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  HCTR_TRY(cudaMemPoolCreate(&pool, &properties));
  std::uint64_t keep_all = UINT64_MAX;
  HCTR_TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
  // Memory that another stream has given back is taken only when that stream has come so far: an
  // allocation must not make its stream wait for another one's work.
  int never = 0;
  HCTR_TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &never));
  for (const int other : all.access[device]) set_access(pool, other);
  entry.pool = pool;
  return entry;
}

}  // namespace

cudaMemPool_t memory_pool(int device) {
  Pools& all = pools();
  const std::lock_guard lock(all.mutex);
  return pool_of(all, device).pool;
}

cudaStream_t memory_stream(int device) {
  Pools& all = pools();
  const std::lock_guard lock(all.mutex);
  return pool_of(all, device).stream;
}

void trim_memory_pool(int device) noexcept {
  Pool found;
  {
    Pools& all = pools();
    const std::lock_guard lock(all.mutex);
    const auto it = all.of_device.find(device);
    if (it != all.of_device.end()) found = it->second;
  }
  if (found.pool == nullptr) return;  // pools that are there stay
  // What was freed in a stream can only go once the stream has come to it. Without the lock: who
  // holds up the stream may need a pool.
  HCTR_TRY_NOTHROW(cudaStreamSynchronize(found.stream));
  HCTR_TRY_NOTHROW(cudaMemPoolTrimTo(found.pool, 0));
}

void share_memory_between(const std::vector<int>& devices) {
  Pools& all = pools();
  const std::lock_guard lock(all.mutex);
  for (const int owner : devices) {
    for (const int other : devices) {
      int can = 0;
      if (other == owner) continue;
      HCTR_TRY(cudaDeviceCanAccessPeer(&can, other, owner));
      if (can == 0 || !all.access[owner].insert(other).second) continue;
      const auto it = all.of_device.find(owner);
      if (it != all.of_device.end() && it->second.pool != nullptr) {
        set_access(it->second.pool, other);
      }
    }
  }
}

std::vector<int> devices_with_access(int device) {
  Pools& all = pools();
  const std::lock_guard lock(all.mutex);
  std::vector<int> result{device};
  const auto it = all.access.find(device);
  if (it != all.access.end()) result.insert(result.end(), it->second.begin(), it->second.end());
  return result;
}

const char* describe_free_memory(char (&text)[96]) noexcept {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    cudaGetLastError();
    return "its free memory is not known";
  }
  std::snprintf(text, sizeof text, "%zu bytes are free of %zu", free, total);
  return text;
}

}  // namespace hugectr::cuda
