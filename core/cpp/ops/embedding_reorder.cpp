// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_reorder.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"

namespace hugectr {
namespace {

/// Calls copy(place in blocks, place in y) for every vector; places count elements.
template <class Copy>
void for_each_vector(ThreadPool& pool, const TensorRef& y, std::size_t devices, const Copy& copy) {
  const std::size_t samples = y.shape[0], slots = y.shape[1], d = y.shape[2];
  std::vector<std::size_t> start(devices), width(devices);
  for (std::size_t r = 0, at = 0; r < devices; at += samples * width[r] * d, ++r) {
    start[r] = at;
    width[r] = slots_of_device(slots, r, devices);
  }
  parallel_for(pool, samples, std::max<std::size_t>(1, 1024 / std::max<std::size_t>(1, slots)),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t sample = begin; sample < end; ++sample) {
                   for (std::size_t slot = 0; slot < slots; ++slot) {
                     const std::size_t r = owner_of_slot(slot, devices);
                     copy(start[r] + (sample * width[r] + slot / devices) * d,
                          sample * y.row_stride + slot * d);
                   }
                 }
               });
}

void reorder_fwd_kernel(const OpContext& context, const EmbeddingReorderFwd& op) {
  const std::size_t size = size_of(op.y.dtype);
  for_each_vector(
      *context.pool, op.y, static_cast<std::size_t>(op.device_count),
      [=, blocks = static_cast<const char*>(op.blocks.data), y = static_cast<char*>(op.y.data),
       bytes = op.y.shape[2] * size](std::size_t block_at, std::size_t y_at) {
        std::memcpy(y + y_at * size, blocks + block_at * size, bytes);
      });
}

void reorder_bwd_kernel(const OpContext& context, const EmbeddingReorderBwd& op) {
  const std::size_t size = size_of(op.dy.dtype);
  for_each_vector(
      *context.pool, op.dy, static_cast<std::size_t>(op.device_count),
      [=, blocks = static_cast<char*>(op.dblocks.data), dy = static_cast<const char*>(op.dy.data),
       bytes = op.dy.shape[2] * size](std::size_t block_at, std::size_t y_at) {
        std::memcpy(blocks + block_at * size, dy + y_at * size, bytes);
      });
}

const OpRegistration<EmbeddingReorderFwd> reorder_fwd_cpu{DeviceType::Cpu, &reorder_fwd_kernel};
const SeveralRegistration<EmbeddingReorderFwd> several_reorder_fwd_cpu{DeviceType::Cpu};
const OpRegistration<EmbeddingReorderBwd> reorder_bwd_cpu{DeviceType::Cpu, &reorder_bwd_kernel};
const SeveralRegistration<EmbeddingReorderBwd> several_reorder_bwd_cpu{DeviceType::Cpu};

void check_reorder(const char* op, const TensorRef& y, const TensorRef& blocks,
                   std::int64_t device_count) {
  check_real(op, "y", y);
  HCTR_CHECK(y.shape.size() == 3, op, ": shape ", to_string(y.shape),
             " must be (samples, slots, d)");
  check_array_at_least(op, "blocks", blocks, y.dtype, y.size());
  HCTR_CHECK(device_count >= 1, op, ": device_count ", device_count, " must be positive");
}

}  // namespace

void EmbeddingReorderFwd::check() const { check_reorder(kName, y, blocks, device_count); }
void EmbeddingReorderBwd::check() const { check_reorder(kName, dy, dblocks, device_count); }

}  // namespace hugectr
