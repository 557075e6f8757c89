// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/exchange/exchange.hpp"
#include "core/cpp/embedding/exchange/vector_calls.hpp"
#include "core/cpp/ops/embedding_lookup.hpp"
#include "core/cpp/ops/embedding_reorder.hpp"

namespace hugectr {
namespace {

/// Numbers of vectors, or of their parts of `width` columns, between this device and the others
/// when whole buckets travel.
struct BlockCounts {
  std::vector<std::size_t> own;    ///< this device's slots of the other's samples
  std::vector<std::size_t> other;  ///< the other's slots of this device's samples

  BlockCounts(const Route& route, std::size_t samples, std::size_t width) {
    const Placement& placement = route.placement();
    for (std::size_t r = 0; r < route.device_count(); ++r) {
      const std::size_t columns = placement.columns(r, route.params().embedding_vec_size).count;
      own.push_back(samples * route.own_slots() * route.own_columns() / width);
      other.push_back(samples * placement.slots_of(r) * columns / width);
    }
  }
};

/// Vectors (b, S, d) as those that come from devices: parts of them, where columns are dealt.
TensorRef in_parts(TensorRef vectors, const Interleave& parts) {
  vectors.shape = {vectors.shape[0], vectors.shape[1] * (vectors.shape[2] / parts.width),
                   parts.width};
  return vectors;
}

class PooledExchange final : public Exchange {
 public:
  void forward(const OpContext& context, std::span<const Shipment> tables,
               const Rounding& rounding) const override {
    pool(context, tables);
    VectorCalls calls(rounding, VectorCalls::Direction::Forward);
    std::vector<EmbeddingReorderFwd> reorders;
    for (const Shipment& table : tables) {
      const Placement& placement = table.route->placement();
      if (placement.device_count() == 1 || placement.replicated()) continue;
      if (placement.whole_buckets()) {
        send_blocks(*table.route, table.vectors, calls, reorders);
      } else {
        add_sums(*table.route, table.vectors, calls, reorders);
      }
    }
    calls.run(context);
    run_several(context, std::move(reorders));
  }

  void backward(const OpContext& context, std::span<Shipment> tables,
                const Rounding& rounding) const override {
    VectorCalls calls(rounding, VectorCalls::Direction::Backward);
    std::vector<EmbeddingReorderBwd> reorders;
    for (Shipment& table : tables) {
      const Placement& placement = table.route->placement();
      if (placement.device_count() == 1) continue;
      table.vectors = placement.whole_buckets()
                          ? return_blocks(*table.route, table.vectors, calls, reorders)
                          : gather_all(*table.route, table.vectors, calls, reorders);
    }
    run_several(context, std::move(reorders));
    calls.run(context);
  }

 private:
  /// Sums of this device's rows in all buckets it has a part of.
  static void pool(const OpContext& context, std::span<const Shipment> tables) {
    std::vector<EmbeddingLookup> lookups;
    lookups.reserve(tables.size());
    for (const Shipment& table : tables) {
      const Route& route = *table.route;
      const TablePlan& plan = *table.plan;
      if (route.own_slots() == 0) continue;
      lookups.push_back(
          {.rows = plan.staged.of_keys,
           .row_offsets = plan.own.row_offsets,
           .weights = plan.staged.arrays.vectors,
           .scale = plan.bucket_scale,
           .out = route.device_count() == 1 || route.of_own_samples()
                      ? table.vectors
                      : route.pooled(table.vectors.dtype, plan.samples, route.own_slots())});
    }
    run_several(context, std::move(lookups));
  }

  static void add_sums(const Route& route, const TensorRef& output, VectorCalls& calls,
                       std::vector<EmbeddingReorderFwd>& reorders) {
    const std::size_t samples = output.shape[0], slots = route.params().buckets_per_sample();
    const TensorRef sums = route.pooled(output.dtype, samples * route.device_count(), slots);
    const bool direct = output.contiguous();
    const TensorRef to = direct ? output : route.packed(output.dtype, samples, slots);
    calls.add_parts(route, sums, to);
    if (!direct) reorders.push_back({.blocks = to, .y = output});
  }

  static TensorRef gather_all(const Route& route, const TensorRef& gradient, VectorCalls& calls,
                              std::vector<EmbeddingReorderBwd>& reorders) {
    const std::size_t samples = gradient.shape[0], slots = route.params().buckets_per_sample();
    TensorRef packed = gradient;
    if (!gradient.contiguous()) {
      packed = route.packed(gradient.dtype, samples, slots);
      reorders.push_back({.dy = gradient, .dblocks = packed});
    }
    const TensorRef all = route.pooled(gradient.dtype, samples * route.device_count(), slots);
    calls.gather(route, packed, all);
    return all;
  }

  static void send_blocks(const Route& route, const TensorRef& output, VectorCalls& calls,
                          std::vector<EmbeddingReorderFwd>& reorders) {
    const std::size_t samples = output.shape[0];
    const Interleave parts = route.placement().interleave(route.params().embedding_vec_size);
    const BlockCounts counts(route, samples, parts.width);
    const bool direct = parts.devices == 1 && output.contiguous();
    const TensorRef blocks =
        direct ? output : route.packed(output.dtype, samples, route.params().buckets_per_sample());
    calls.all_to_all(route, own_blocks(route, output), blocks, parts.width, counts.own,
                     counts.other, {route.wire_sent(), route.wire_came()});
    if (direct) return;
    reorders.push_back({.blocks = in_parts(blocks, parts),
                        .y = in_parts(output, parts),
                        .device_count = static_cast<std::int64_t>(parts.devices)});
  }

  static TensorRef return_blocks(const Route& route, const TensorRef& gradient, VectorCalls& calls,
                                 std::vector<EmbeddingReorderBwd>& reorders) {
    const std::size_t samples = gradient.shape[0];
    const Interleave parts = route.placement().interleave(route.params().embedding_vec_size);
    const BlockCounts counts(route, samples, parts.width);
    TensorRef blocks = gradient;
    if (parts.devices > 1 || !gradient.contiguous()) {
      blocks = route.packed(gradient.dtype, samples, route.params().buckets_per_sample());
      reorders.push_back({.dy = in_parts(gradient, parts),
                          .dblocks = in_parts(blocks, parts),
                          .device_count = static_cast<std::int64_t>(parts.devices)});
    }
    const TensorRef own = own_blocks(route, gradient);
    calls.all_to_all(route, blocks, own, parts.width, counts.other, counts.own,
                     {route.wire_sent(), route.wire_came()});
    return own;
  }

  /// Memory for this device's slots and columns of all samples, of the type of `vectors`.
  static TensorRef own_blocks(const Route& route, const TensorRef& vectors) {
    return route.pooled(vectors.dtype, vectors.shape[0] * route.device_count(), route.own_slots());
  }
};

}  // namespace

std::unique_ptr<Exchange> make_pooled_exchange() { return std::make_unique<PooledExchange>(); }

}  // namespace hugectr
