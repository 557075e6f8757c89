// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "core/cpp/comm/communicator.hpp"
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
    for (const Shipment& table : tables) {
      pool(context, table);
      if (table.route->device_count() == 1) continue;
      if (table.route->placement().whole_buckets()) {
        send_blocks(context, *table.route, table.vectors);
      } else {
        add_sums(context, *table.route, table.vectors);
      }
    }
  }

  void backward(const OpContext& context, std::span<Shipment> tables) const override {
    for (Shipment& table : tables) {
      if (table.route->device_count() == 1) continue;
      table.vectors = table.route->placement().whole_buckets()
                          ? return_blocks(context, *table.route, table.vectors)
                          : gather_all(context, *table.route, table.vectors);
    }
  }

 private:
  /// Sums of this device's rows in all buckets it has a part of.
  static void pool(const OpContext& context, const Shipment& table) {
    const Route& route = *table.route;
    const TablePlan& plan = *table.plan;
    if (route.own_slots() == 0) return;
    run(context, EmbeddingLookup{.rows = plan.staged.of_keys,
                                 .row_offsets = plan.own.row_offsets,
                                 .weights = plan.staged.arrays.vectors,
                                 .scale = plan.bucket_scale,
                                 .out = route.device_count() == 1
                                            ? table.vectors
                                            : route.pooled(table.vectors.dtype, plan.samples,
                                                           route.own_slots())});
  }

  static void add_sums(const OpContext& context, const Route& route, const TensorRef& output) {
    const std::size_t samples = output.shape[0], slots = route.params().slot_num;
    const TensorRef sums = route.pooled(output.dtype, samples * route.device_count(), slots);
    if (output.contiguous()) {
      context.communicator->reduce_scatter(sums, output, *context.stream);
      return;
    }
    const TensorRef packed = route.packed(output.dtype, samples, slots);
    context.communicator->reduce_scatter(sums, packed, *context.stream);
    run(context, EmbeddingReorderFwd{.blocks = packed, .y = output});
  }

  static TensorRef gather_all(const OpContext& context, const Route& route,
                              const TensorRef& gradient) {
    const std::size_t samples = gradient.shape[0], slots = route.params().slot_num;
    TensorRef packed = gradient;
    if (!gradient.contiguous()) {
      packed = route.packed(gradient.dtype, samples, slots);
      run(context, EmbeddingReorderBwd{.dy = gradient, .dblocks = packed});
    }
    const TensorRef all = route.pooled(gradient.dtype, samples * route.device_count(), slots);
    context.communicator->all_gather(packed, all, *context.stream);
    return all;
  }

  static void send_blocks(const OpContext& context, const Route& route, const TensorRef& output) {
    const std::size_t samples = output.shape[0], devices = route.device_count();
    const BlockCounts counts(route, samples);
    const TensorRef blocks = route.packed(output.dtype, samples, route.params().slot_num);
    context.communicator->all_to_all(
        route.pooled(output.dtype, samples * devices, route.own_slots()), counts.own, blocks,
        counts.other, *context.stream);
    run(context,
        EmbeddingReorderFwd{
            .blocks = blocks, .y = output, .device_count = static_cast<std::int64_t>(devices)});
  }

  static TensorRef return_blocks(const OpContext& context, const Route& route,
                                 const TensorRef& gradient) {
    const std::size_t samples = gradient.shape[0], devices = route.device_count();
    const BlockCounts counts(route, samples);
    const TensorRef blocks = route.packed(gradient.dtype, samples, route.params().slot_num);
    run(context,
        EmbeddingReorderBwd{
            .dy = gradient, .dblocks = blocks, .device_count = static_cast<std::int64_t>(devices)});
    const TensorRef own = route.pooled(gradient.dtype, samples * devices, route.own_slots());
    context.communicator->all_to_all(blocks, counts.other, own, counts.own, *context.stream);
    return own;
  }
};

}  // namespace

std::unique_ptr<Exchange> make_pooled_exchange() { return std::make_unique<PooledExchange>(); }

}  // namespace hugectr
