// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "core/cpp/device/op.hpp"
#include "core/cpp/embedding/embedding.hpp"
#include "core/cpp/embedding/lookup_plan.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

/// Device memory that an exchange may use; sized by SlotDistribution::pooled_vectors() and
/// packed_vectors() times d numbers of the embedding's output type; what an exchange puts there has
/// the type of the output it serves. Empty when there is one device only.
struct ExchangeBuffers {
  TensorRef pooled;  ///< vectors of the global batch, as this device pools them
  TensorRef packed;  ///< vectors of this device's samples, without gaps
};

/// Who owns a key, and how pooled vectors reach the devices that own the samples: all that tells a
/// Distributed table from a Localized one. One object a device.
///
/// The two exchange functions are the `pooled` exchange: owners send sums of whole buckets. The
/// other one, which sends distinct rows, is the same for both types: unique_exchange.hpp.
class SlotDistribution {
 public:
  SlotDistribution(std::size_t slot_num, std::size_t vec_size, std::size_t rank,
                   std::size_t device_count)
      : slot_num_(slot_num), vec_size_(vec_size), rank_(rank), device_count_(device_count) {}
  virtual ~SlotDistribution() = default;

  /// Device that owns a row.
  virtual std::size_t owner(std::uint64_t widened_key, std::size_t slot) const = 0;
  /// Whether rows are owned by slot, or else by key.
  virtual bool by_slot() const = 0;
  /// Slots in the buckets of a device's plan: bucket = sample * slots + local slot. Device 0 has
  /// the most.
  virtual std::size_t slots_of(std::size_t rank) const = 0;
  std::size_t local_slots() const { return slots_of(rank_); }
  /// Slot number (in the whole table) of a bucket of the plan.
  virtual std::size_t slot_of(std::size_t bucket) const = 0;
  /// How row identity sees buckets: slots count (Localized) or not.
  virtual SlotOfBucket row_slot() const = 0;
  /// Enqueues filter_keys: this device's share of a batch, into the buffers of `own`.
  void filter(const OpContext& context, const SparseTensor& csr, const FilterKeyStorage& own) const;

  /// pooled (B, local_slots, d) of every device -> output (b, S, d), any row_stride. Collective.
  virtual void exchange_forward(const OpContext& context, const ExchangeBuffers& buffers,
                                const TensorRef& output) const = 0;
  /// gradient (b, S, d) of every device -> what this device's buckets need: (B, local_slots, d), in
  /// buffers.pooled. Collective.
  virtual TensorRef exchange_backward(const OpContext& context, const ExchangeBuffers& buffers,
                                      const TensorRef& gradient) const = 0;

  std::size_t slot_num() const { return slot_num_; }
  std::size_t rank() const { return rank_; }
  std::size_t device_count() const { return device_count_; }
  std::size_t pooled_vectors(std::size_t batch) const { return batch * local_slots(); }
  std::size_t packed_vectors(std::size_t batch) const { return batch / device_count_ * slot_num_; }
  /// The beginning of a buffer as (samples, slots, d) of `type`.
  TensorRef vectors(const TensorRef& buffer, TensorScalarType type, std::size_t samples,
                    std::size_t slots) const;

 protected:
  std::size_t slot_num_, vec_size_, rank_, device_count_;
};

std::unique_ptr<SlotDistribution> make_slot_distribution(EmbeddingType type, std::size_t slot_num,
                                                         std::size_t vec_size, std::size_t rank,
                                                         std::size_t device_count);

}  // namespace hugectr
