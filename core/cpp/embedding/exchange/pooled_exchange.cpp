// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/exchange/exchange.hpp"
#include "core/cpp/ops/embedding_lookup.hpp"
#include "core/cpp/ops/embedding_reorder.hpp"

namespace hugectr {
namespace {

/// Numbers of vectors between this device and the others when whole buckets travel.
struct BlockCounts {
  std::vector<std::size_t> own;    ///< this device's slots of the other's samples
  std::vector<std::size_t> other;  ///< the other's slots of this device's samples

  BlockCounts(const Route& route, std::size_t samples) {
    const std::size_t vectors = samples * route.params().embedding_vec_size;
    for (std::size_t r = 0; r < route.device_count(); ++r) {
      own.push_back(vectors * route.own_slots());
      other.push_back(vectors * route.placement().slots_of(r));
    }
  }
};

class PooledExchange final : public Exchange {
 public:
  void forward(const OpContext& context, std::span<const Shipment> tables) const override {
    pool(context, tables);
    std::vector<CollectiveCall> calls;
    std::vector<EmbeddingReorderFwd> reorders;
    for (const Shipment& table : tables) {
      if (table.route->device_count() == 1) continue;
      if (table.route->placement().whole_buckets()) {
        send_blocks(*table.route, table.vectors, calls, reorders);
      } else {
        add_sums(*table.route, table.vectors, calls, reorders);
      }
    }
    if (calls.empty()) return;
    context.communicator->together(calls, *context.stream);
    run_several(context, std::move(reorders));
  }

  void backward(const OpContext& context, std::span<Shipment> tables) const override {
    std::vector<CollectiveCall> calls;
    std::vector<EmbeddingReorderBwd> reorders;
    for (Shipment& table : tables) {
      if (table.route->device_count() == 1) continue;
      table.vectors = table.route->placement().whole_buckets()
                          ? return_blocks(*table.route, table.vectors, calls, reorders)
                          : gather_all(*table.route, table.vectors, calls, reorders);
    }
    if (calls.empty()) return;
    run_several(context, std::move(reorders));
    context.communicator->together(calls, *context.stream);
  }

 private:
  using Calls = std::vector<CollectiveCall>;

  /// Sums of this device's rows in all buckets it has a part of.
  static void pool(const OpContext& context, std::span<const Shipment> tables) {
    std::vector<EmbeddingLookup> lookups;
    for (const Shipment& table : tables) {
      const Route& route = *table.route;
      const TablePlan& plan = *table.plan;
      if (route.own_slots() == 0) continue;
      lookups.push_back(
          {.rows = plan.staged.of_keys,
           .row_offsets = plan.own.row_offsets,
           .weights = plan.staged.arrays.vectors,
           .scale = plan.bucket_scale,
           .out = route.device_count() == 1
                      ? table.vectors
                      : route.pooled(table.vectors.dtype, plan.samples, route.own_slots())});
    }
    run_several(context, std::move(lookups));
  }

  static void add_sums(const Route& route, const TensorRef& output, Calls& calls,
                       std::vector<EmbeddingReorderFwd>& reorders) {
    const std::size_t samples = output.shape[0], slots = route.params().buckets_per_sample();
    const TensorRef sums = route.pooled(output.dtype, samples * route.device_count(), slots);
    const bool direct = output.contiguous();
    const TensorRef to = direct ? output : route.packed(output.dtype, samples, slots);
    calls.push_back({.collective = "reduce_scatter", .in = sums, .out = to});
    if (!direct) reorders.push_back({.blocks = to, .y = output});
  }

  static TensorRef gather_all(const Route& route, const TensorRef& gradient, Calls& calls,
                              std::vector<EmbeddingReorderBwd>& reorders) {
    const std::size_t samples = gradient.shape[0], slots = route.params().buckets_per_sample();
    TensorRef packed = gradient;
    if (!gradient.contiguous()) {
      packed = route.packed(gradient.dtype, samples, slots);
      reorders.push_back({.dy = gradient, .dblocks = packed});
    }
    const TensorRef all = route.pooled(gradient.dtype, samples * route.device_count(), slots);
    calls.push_back({.collective = "all_gather", .in = packed, .out = all});
    return all;
  }

  static void send_blocks(const Route& route, const TensorRef& output, Calls& calls,
                          std::vector<EmbeddingReorderFwd>& reorders) {
    const std::size_t samples = output.shape[0], devices = route.device_count();
    const BlockCounts counts(route, samples);
    const TensorRef blocks =
        route.packed(output.dtype, samples, route.params().buckets_per_sample());
    calls.push_back({.collective = "all_to_all",
                     .in = route.pooled(output.dtype, samples * devices, route.own_slots()),
                     .out = blocks,
                     .send_counts = counts.own,
                     .receive_counts = counts.other});
    reorders.push_back(
        {.blocks = blocks, .y = output, .device_count = static_cast<std::int64_t>(devices)});
  }

  static TensorRef return_blocks(const Route& route, const TensorRef& gradient, Calls& calls,
                                 std::vector<EmbeddingReorderBwd>& reorders) {
    const std::size_t samples = gradient.shape[0], devices = route.device_count();
    const BlockCounts counts(route, samples);
    const TensorRef blocks =
        route.packed(gradient.dtype, samples, route.params().buckets_per_sample());
    reorders.push_back(
        {.dy = gradient, .dblocks = blocks, .device_count = static_cast<std::int64_t>(devices)});
    const TensorRef own = route.pooled(gradient.dtype, samples * devices, route.own_slots());
    calls.push_back({.collective = "all_to_all",
                     .in = blocks,
                     .out = own,
                     .send_counts = counts.other,
                     .receive_counts = counts.own});
    return own;
  }
};

}  // namespace

std::unique_ptr<Exchange> make_pooled_exchange() { return std::make_unique<PooledExchange>(); }

}  // namespace hugectr
