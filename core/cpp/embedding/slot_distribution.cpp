// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/slot_distribution.hpp"

#include <vector>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/ops/embedding_reorder.hpp"
#include "core/cpp/ops/filter_keys.hpp"

namespace hugectr {
namespace {

/// Owner = key % N. Every device pools what it owns of every bucket; the sums are added up.
class DistributedSlot final : public SlotDistribution {
 public:
  using SlotDistribution::SlotDistribution;

  std::size_t owner(std::uint64_t widened_key, std::size_t) const override {
    return owner_of_key(widened_key, device_count_);
  }
  bool by_slot() const override { return false; }
  std::size_t slots_of(std::size_t) const override { return slot_num_; }
  std::size_t slot_of(std::size_t bucket) const override { return bucket % slot_num_; }
  SlotOfBucket row_slot() const override { return {}; }

  void exchange_forward(const OpContext& context, const ExchangeBuffers& buffers,
                        const TensorRef& output) const override {
    const std::size_t samples = output.shape[0];
    const TensorRef sums =
        vectors(buffers.pooled, output.dtype, samples * device_count_, slot_num_);
    if (output.contiguous()) {
      context.communicator->reduce_scatter(sums, output, *context.stream);
      return;
    }
    const TensorRef packed = vectors(buffers.packed, output.dtype, samples, slot_num_);
    context.communicator->reduce_scatter(sums, packed, *context.stream);
    run(context, EmbeddingReorderFwd{.blocks = packed, .y = output});
  }

  TensorRef exchange_backward(const OpContext& context, const ExchangeBuffers& buffers,
                              const TensorRef& gradient) const override {
    const std::size_t samples = gradient.shape[0];
    TensorRef packed = gradient;
    if (!gradient.contiguous()) {
      packed = vectors(buffers.packed, gradient.dtype, samples, slot_num_);
      run(context, EmbeddingReorderBwd{.dy = gradient, .dblocks = packed});
    }
    const TensorRef all =
        vectors(buffers.pooled, gradient.dtype, samples * device_count_, slot_num_);
    context.communicator->all_gather(packed, all, *context.stream);
    return all;
  }
};

/// Owner = slot % N. A slot is pooled whole on its device; vectors change places.
class LocalizedSlot final : public SlotDistribution {
 public:
  using SlotDistribution::SlotDistribution;

  std::size_t owner(std::uint64_t, std::size_t slot) const override {
    return owner_of_slot(slot, device_count_);
  }
  bool by_slot() const override { return true; }
  std::size_t slots_of(std::size_t rank) const override {
    return slots_of_device(slot_num_, rank, device_count_);
  }
  std::size_t slot_of(std::size_t bucket) const override {
    return rank_ + bucket % local_slots() * device_count_;
  }
  SlotOfBucket row_slot() const override {
    return {static_cast<std::uint32_t>(local_slots()), static_cast<std::uint32_t>(device_count_),
            static_cast<std::uint32_t>(rank_)};
  }

  void exchange_forward(const OpContext& context, const ExchangeBuffers& buffers,
                        const TensorRef& output) const override {
    const std::size_t samples = output.shape[0];
    const TensorRef blocks = vectors(buffers.packed, output.dtype, samples, slot_num_);
    context.communicator->all_to_all(
        vectors(buffers.pooled, output.dtype, samples * device_count_, local_slots()),
        own_counts(samples), blocks, slot_counts(samples), *context.stream);
    run(context, EmbeddingReorderFwd{.blocks = blocks,
                                     .y = output,
                                     .device_count = static_cast<std::int64_t>(device_count_)});
  }

  TensorRef exchange_backward(const OpContext& context, const ExchangeBuffers& buffers,
                              const TensorRef& gradient) const override {
    const std::size_t samples = gradient.shape[0];
    const TensorRef blocks = vectors(buffers.packed, gradient.dtype, samples, slot_num_);
    run(context, EmbeddingReorderBwd{.dy = gradient,
                                     .dblocks = blocks,
                                     .device_count = static_cast<std::int64_t>(device_count_)});
    const TensorRef own =
        vectors(buffers.pooled, gradient.dtype, samples * device_count_, local_slots());
    context.communicator->all_to_all(blocks, slot_counts(samples), own, own_counts(samples),
                                     *context.stream);
    return own;
  }

 private:
  /// Numbers between this device and each other one: this device's slots of the other's samples.
  std::vector<std::size_t> own_counts(std::size_t samples) const {
    return std::vector<std::size_t>(device_count_, samples * local_slots() * vec_size_);
  }
  /// ... and the other's slots of this device's samples.
  std::vector<std::size_t> slot_counts(std::size_t samples) const {
    std::vector<std::size_t> counts(device_count_);
    for (std::size_t r = 0; r < device_count_; ++r) counts[r] = samples * slots_of(r) * vec_size_;
    return counts;
  }
};

}  // namespace

void SlotDistribution::filter(const OpContext& context, const SparseTensor& csr,
                              const FilterKeyStorage& own) const {
  run(context, FilterKeys{.keys = csr.keys,
                          .row_offsets = csr.row_offsets,
                          .own_keys = own.keys,
                          .own_row_offsets = own.row_offsets,
                          .own_places = own.places,
                          .slot_num = static_cast<std::int64_t>(slot_num_),
                          .rank = static_cast<std::int64_t>(rank_),
                          .device_count = static_cast<std::int64_t>(device_count_),
                          .by_slot = by_slot()});
}

TensorRef SlotDistribution::vectors(const TensorRef& buffer, TensorScalarType type,
                                    std::size_t samples, std::size_t slots) const {
  HCTR_CHECK(samples * slots * vec_size_ * size_of(type) <= buffer.size_in_bytes(), "a batch of ",
             samples, " samples of ", to_string(type),
             " is larger than the exchange buffers were made for");
  TensorRef ref = buffer;
  ref.dtype = type;
  ref.shape = {samples, slots, vec_size_};
  ref.row_stride = slots * vec_size_;
  return ref;
}

std::unique_ptr<SlotDistribution> make_slot_distribution(EmbeddingType type, std::size_t slot_num,
                                                         std::size_t vec_size, std::size_t rank,
                                                         std::size_t device_count) {
  if (type == EmbeddingType::LocalizedSlotSparseEmbeddingHash) {
    return std::make_unique<LocalizedSlot>(slot_num, vec_size, rank, device_count);
  }
  return std::make_unique<DistributedSlot>(slot_num, vec_size, rank, device_count);
}

}  // namespace hugectr
