// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/positions.hpp"

#include <algorithm>
#include <utility>

namespace hugectr {

PositionStarts::PositionStarts(const SparseEmbeddingHashParams& params, Stream& stream,
                               const std::shared_ptr<MemoryResource>& memory) {
  if (params.pooled()) return;
  starts_.push_back(0);
  for (const std::size_t count : params.positions) {
    starts_.push_back(starts_.back() + static_cast<std::uint32_t>(count));
  }
  auto arena = DeviceBuffer2::create(params.name + " positions", DeviceAllocator(memory));
  on_device_ = arena->reserve({starts_.size()}, TensorScalarType::UInt32, "first of each slot");
  arena->allocate();
  stream.copy(on_device_.ref().data, starts_.data(), starts_.size() * sizeof(std::uint32_t));
  stream.synchronize();
}

std::size_t PositionStarts::slot_of(std::size_t bucket) const {
  if (starts_.empty()) return bucket;
  const auto next = std::upper_bound(starts_.begin(), starts_.end(), bucket);
  return static_cast<std::size_t>(next - starts_.begin()) - 1;
}

PositionOffsets PositionStarts::spread(const TensorRef& row_offsets, const TensorRef& out) const {
  return {.row_offsets = row_offsets,
          .starts = on_device_.ref(),
          .out = out,
          .positions = static_cast<std::int64_t>(positions())};
}

void PositionBuffer::reserve(const std::shared_ptr<MemoryResource>& memory,
                             const std::string& owner, std::size_t buckets) {
  const std::size_t most = std::max(buckets_, buckets);
  auto next = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  offsets_ = next->reserve({most + 1}, TensorScalarType::UInt32, "row offsets of positions");
  buckets_ = 0;
  next->allocate();
  arena_ = std::move(next);
  buckets_ = most;
}

TensorRef PositionBuffer::row_offsets(std::size_t buckets) const {
  TensorRef ref = offsets_.ref();
  ref.shape = {buckets + 1};
  ref.row_stride = 1;
  return ref;
}

}  // namespace hugectr
