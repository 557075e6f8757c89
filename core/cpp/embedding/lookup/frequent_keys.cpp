// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/frequent_keys.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

void RareBatch::reserve(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                        TensorScalarType key_type, std::size_t n, std::size_t buckets) {
  const std::size_t most = std::max(key_capacity, n + n / 8 + 64);
  const std::size_t bucket_most = std::max(bucket_capacity, buckets);
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  held = next->reserve({most}, TensorScalarType::UInt32, "which keys are frequent");
  keys = next->reserve({most}, key_type, "rare keys");
  row_offsets = next->reserve({bucket_most + 1}, TensorScalarType::UInt32, "their row offsets");
  key_capacity = bucket_capacity = 0;
  next->allocate();
  arena = std::move(next);
  key_capacity = most;
  bucket_capacity = bucket_most;
}

FrequentKeys::FrequentKeys(GPUResource& gpu, const std::string& owner, TensorScalarType key_type,
                           const std::vector<std::int64_t>& keys)
    : set_(gpu.memory_resource(), owner + " frequent keys", key_type,
           std::max<std::size_t>(keys.size(), 1), false, gpu.staging_resource()) {
  arena_ = DeviceBuffer2::create(owner + " frequent keys", DeviceAllocator(gpu.memory_resource()));
  report_ = arena_->reserve({kReportSize}, TensorScalarType::Int64, "report");
  const TensorBag2 device_keys = arena_->reserve({keys.size()}, key_type, "keys");
  arena_->allocate();
  const OpContext context = gpu.plan_context();
  set_.make_index(context);
  with_key_type(key_type, [&]<class Key>(Key) {
    const std::vector<Key> own(keys.begin(), keys.end());
    context.stream->copy(device_keys.ref().data, own.data(), own.size() * sizeof(Key));
    if (!own.empty()) set_.set(context, device_keys.ref(), {});
    context.stream->synchronize();
  });
}

HashGet FrequentKeys::mark(const TensorRef& keys, const TensorRef& held) const {
  return set_.to_read(keys, {}, SlotOfBucket{}, {set_.size(), {}, 0}, held, report_.ref());
}

}  // namespace hugectr
