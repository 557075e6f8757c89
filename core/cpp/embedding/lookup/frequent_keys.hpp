// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/table/hash_table.hpp"

namespace hugectr {

/// Memory for a batch without its frequent keys, and for which they are. Once a plan slot.
struct RareBatch {
  bool fits(std::size_t n, std::size_t buckets) const {
    return arena && n <= key_capacity && buckets <= bucket_capacity;
  }
  /// At least what it was; no stream may use the old memory any more.
  void reserve(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
               TensorScalarType key_type, std::size_t n, std::size_t buckets);

  std::shared_ptr<DeviceBuffer2> arena;
  std::size_t key_capacity = 0, bucket_capacity = 0;
  TensorBag2 held;               ///< (>= n) uint32
  TensorBag2 keys, row_offsets;  ///< (>= n), (>= buckets + 1)
};

/// Which keys of a batch are frequent ones, on one device: a set of keys that never changes.
///
/// A hybrid looks its frequent rows up with the whole batch, of which a filter keeps the keys that
/// are held, and the others with what is left of it: a RareBatch.
class FrequentKeys {
 public:
  FrequentKeys(GPUResource& gpu, const std::string& owner, TensorScalarType key_type,
               const std::vector<std::int64_t>& keys);

  /// held[i] := kNoRow unless keys[i] is frequent. On the plan stream; waits for nothing.
  HashGet mark(const TensorRef& keys, const TensorRef& held) const;

 private:
  HashTable set_;
  std::shared_ptr<DeviceBuffer2> arena_;
  TensorBag2 report_;
};

}  // namespace hugectr
