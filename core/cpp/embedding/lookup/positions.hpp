// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/stream.hpp"
#include "core/cpp/embedding/embedding_params.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/position_offsets.hpp"

/// Un-pooled slots (Combiner::Concat): each position of a slot is a bucket of at most one key, so
/// that whatever looks up, exchanges and updates buckets serves sequences too. Only row offsets
/// change; keys lie in the order of their positions already.
namespace hugectr {

/// Which positions of a sample are whose, on one device. Empty for a table that pools.
class PositionStarts {
 public:
  PositionStarts(const SparseEmbeddingHashParams& params, Stream& stream,
                 const std::shared_ptr<MemoryResource>& memory);

  std::size_t positions() const { return starts_.empty() ? 0 : starts_.back(); }
  /// Slot of a bucket of a sample: the bucket itself where slots are pooled.
  std::size_t slot_of(std::size_t bucket) const;
  /// Row offsets of a batch, (B * slots + 1), as row offsets of its positions.
  PositionOffsets spread(const TensorRef& row_offsets, const TensorRef& out) const;

 private:
  std::vector<std::uint32_t> starts_;
  TensorBag2 on_device_;
};

/// Memory for row offsets of positions.
class PositionBuffer {
 public:
  bool fits(std::size_t buckets) const { return arena_ && buckets <= buckets_; }
  /// At least what it was; no stream may use the old memory any more.
  void reserve(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
               std::size_t buckets);
  TensorRef row_offsets(std::size_t buckets) const;
  const std::shared_ptr<DeviceBuffer2>& arena() const { return arena_; }

 private:
  std::shared_ptr<DeviceBuffer2> arena_;
  TensorBag2 offsets_;
  std::size_t buckets_ = 0;
};

}  // namespace hugectr
