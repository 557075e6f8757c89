// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/cpp/device/op.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/embedding/embedding_params.hpp"
#include "core/cpp/embedding/lookup/lookup_plan.hpp"
#include "core/cpp/embedding/micro_batch.hpp"
#include "core/cpp/embedding/placement/placement.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// One table on one device, as an exchange sees it: who has which buckets, and memory for vectors
/// on their way. What an exchange puts there has the type of the output it serves; the memory is
/// made for the embedding's output type. No memory where there is one device only.
class Route {
 public:
  /// `rank`: global id of the device, `memory`: its own.
  Route(const SparseEmbeddingHashParams& params, const Placement& placement, std::size_t rank,
        const std::shared_ptr<MemoryResource>& memory, const std::string& owner);

  const SparseEmbeddingHashParams& params() const { return params_; }
  const Placement& placement() const { return placement_; }
  std::size_t rank() const { return rank_; }
  std::size_t device_count() const { return placement_.device_count(); }
  std::size_t own_slots() const { return placement_.slots_of(rank_); }
  /// Whether the device looks up keys of its own samples alone: it has every row.
  bool of_own_samples() const { return device_count() > 1 && placement_.replicated(); }
  /// Columns of the rows that lie here.
  std::size_t own_columns() const {
    return placement_.columns(rank_, params_.embedding_vec_size).count;
  }
  /// Vectors of the larger of the two batches that are pooled on a device.
  std::size_t pooled_vectors(std::size_t rank) const { return batch() * placement_.slots_of(rank); }
  /// Vectors of a device's samples of that batch.
  std::size_t packed_vectors() const {
    return batch() / device_count() * params_.buckets_per_sample();
  }

  /// (samples, slots, own columns) of `type` at the beginning of: vectors as this device pools
  /// them.
  TensorRef pooled(TensorScalarType type, std::size_t samples, std::size_t slots) const {
    return vectors(pooled_, type, samples, slots, own_columns());
  }
  /// (samples, slots, d) ...: vectors of this device's samples, without gaps.
  TensorRef packed(TensorScalarType type, std::size_t samples, std::size_t slots) const {
    return vectors(packed_, type, samples, slots, params_.embedding_vec_size);
  }
  /// (samples, slots, own columns) ...: gradients of a micro-batch as they come from devices,
  /// before they go where `pooled` has them. Only where training batches have several.
  TensorRef come(TensorScalarType type, std::size_t samples, std::size_t slots) const {
    return vectors(come_, type, samples, slots, own_columns());
  }
  /// Bytes of vectors that are packed for their way; empty where they travel as they are.
  TensorRef wire_sent() const { return wire_sent_.ref(); }
  TensorRef wire_came() const { return wire_came_.ref(); }
  const std::shared_ptr<DeviceBuffer2>& arena() const { return arena_; }

 private:
  std::size_t batch() const { return std::max(params_.batch_size, params_.batch_size_eval); }
  static TensorRef vectors(const FlatBuffer& buffer, TensorScalarType type, std::size_t samples,
                           std::size_t slots, std::size_t d);

  const SparseEmbeddingHashParams& params_;
  const Placement& placement_;
  std::size_t rank_;
  std::shared_ptr<DeviceBuffer2> arena_;
  FlatBuffer pooled_, packed_, come_, wire_sent_, wire_came_;
};

/// One table's part of an exchange.
struct Shipment {
  std::size_t table = 0;  ///< number in the group
  const Route* route = nullptr;
  const TablePlan* plan = nullptr;
  /// Forward: the output (b, S, d), any row_stride. Backward: its gradient, in whose place comes
  /// what the runs of the plan need, in memory of the route. Of all micro-batches.
  TensorRef vectors;
};

/// How numbers are rounded to what they travel as.
struct Rounding {
  std::uint64_t seed = 0;
  TensorRef step;  ///< (1) int64: up or down by chance; empty: to nearest
};

/// How vectors of a group of tables reach the devices whose samples need them, and how gradients
/// come back. One object a device; both functions are collective, with the same tables in the same
/// order everywhere. A training batch may travel in micro-batches, each by a call, in their order.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// On the compute stream: rows of the plans -> outputs of a micro-batch, which are overwritten.
  virtual void forward(const OpContext& context, std::span<const Shipment> tables,
                       const Rounding& rounding, MicroBatch part) const = 0;
  /// On the stream that updates the tables: gradients of a micro-batch. Behind the last one all of
  /// what the runs need is there.
  virtual void backward(const OpContext& context, std::span<Shipment> tables,
                        const Rounding& rounding, MicroBatch part) const = 0;
};

/// Owners send sums of whole buckets, or of their part of them. Also for a single device, where
/// nothing travels, and for tables that all devices have, of which only gradients do.
std::unique_ptr<Exchange> make_pooled_exchange();

}  // namespace hugectr
