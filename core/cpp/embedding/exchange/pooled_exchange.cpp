// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/exchange/exchange.hpp"
#include "core/cpp/embedding/exchange/vector_calls.hpp"
#include "core/cpp/ops/copy_blocks.hpp"
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

/// Neighbouring samples of a batch.
struct Samples {
  std::size_t first = 0, count = 0;
};

/// Of the samples whose buckets a device has, those of a micro-batch: of the device's own, or of
/// every device's.
std::vector<Samples> samples_of(const Route& route, const TablePlan& plan, MicroBatch part) {
  const std::size_t devices = route.device_count(), own = plan.samples / devices;
  if (devices == 1 || route.of_own_samples()) return {{part.first(own), part.samples(own)}};
  if (part.whole()) return {{0, plan.samples}};
  std::vector<Samples> all;
  for (std::size_t r = 0; r < devices; ++r) {
    all.push_back({r * own + part.first(own), part.samples(own)});
  }
  return all;
}

/// Elements [begin, begin + n) of what lies one after the other.
TensorRef range_of_ref(TensorRef ref, std::size_t begin, std::size_t n) {
  ref.data = static_cast<char*>(ref.data) + begin * size_of(ref.dtype);
  ref.shape = {n};
  ref.row_stride = 1;
  return ref;
}

class PooledExchange final : public Exchange {
 public:
  void forward(const OpContext& context, std::span<const Shipment> tables, const Rounding& rounding,
               MicroBatch part) const override {
    pool(context, tables, part);
    VectorCalls calls(rounding, VectorCalls::Direction::Forward);
    std::vector<EmbeddingReorderFwd> reorders;
    for (const Shipment& table : tables) {
      const Placement& placement = table.route->placement();
      if (placement.device_count() == 1 || placement.replicated()) continue;
      const TensorRef output = part.of(table.vectors);
      if (placement.whole_buckets()) {
        send_blocks(*table.route, output, calls, reorders);
      } else {
        add_sums(*table.route, output, calls, reorders);
      }
    }
    calls.run(context);
    run_several(context, std::move(reorders));
  }

  void backward(const OpContext& context, std::span<Shipment> tables, const Rounding& rounding,
                MicroBatch part) const override {
    VectorCalls calls(rounding, VectorCalls::Direction::Backward);
    std::vector<EmbeddingReorderBwd> reorders;
    std::vector<CopyBlocks> copies;
    for (Shipment& table : tables) {
      const Placement& placement = table.route->placement();
      if (placement.device_count() == 1) continue;
      const Route& route = *table.route;
      const TensorRef gradient = part.of(table.vectors);
      const std::size_t samples = gradient.shape[0] * route.device_count();
      const TensorRef to = part.whole() ? route.pooled(gradient.dtype, samples, route.own_slots())
                                        : route.come(gradient.dtype, samples, route.own_slots());
      if (placement.whole_buckets()) {
        return_blocks(route, gradient, to, calls, reorders);
      } else {
        gather_all(route, gradient, to, calls, reorders);
      }
      table.vectors = part.whole() ? to : in_their_order(route, to, part, copies);
    }
    run_several(context, std::move(reorders));
    calls.run(context);
    run_several(context, std::move(copies));
  }

 private:
  /// Sums of this device's rows in all buckets it has a part of.
  static void pool(const OpContext& context, std::span<const Shipment> tables, MicroBatch part) {
    std::vector<EmbeddingLookup> lookups;
    lookups.reserve(tables.size());
    for (const Shipment& table : tables) {
      const Route& route = *table.route;
      const TablePlan& plan = *table.plan;
      const std::size_t slots = route.own_slots();
      if (slots == 0) continue;
      const bool travels = route.device_count() > 1 && !route.of_own_samples();
      TensorRef out = travels ? route.pooled(table.vectors.dtype, part.samples(plan.samples), slots)
                              : part.of(table.vectors);
      for (const Samples& samples : samples_of(route, plan, part)) {
        out.shape[0] = samples.count;
        const std::size_t first = samples.first * slots, buckets = samples.count * slots;
        lookups.push_back({.rows = plan.staged.of_keys,
                           .row_offsets = range_of_ref(plan.own.row_offsets, first, buckets + 1),
                           .weights = plan.staged.arrays.vectors,
                           .scale = plan.bucket_scale.empty()
                                        ? TensorRef{}
                                        : range_of_ref(plan.bucket_scale, first, buckets),
                           .out = out});
        out.data =
            static_cast<char*>(out.data) + samples.count * out.row_stride * size_of(out.dtype);
      }
    }
    run_several(context, std::move(lookups));
  }

  /// Where the gradients of all samples lie; those of a micro-batch have come device by device.
  static TensorRef in_their_order(const Route& route, const TensorRef& came, MicroBatch part,
                                  std::vector<CopyBlocks>& copies) {
    const std::size_t devices = route.device_count(), samples = came.shape[0] / devices;
    const std::size_t own = samples * part.count;  // of a device
    const TensorRef all = route.pooled(came.dtype, own * devices, route.own_slots());
    const std::size_t sample = came.row_size();
    if (sample == 0) return all;
    CopyBlocks& copy = copies.emplace_back(CopyBlocks{.in = came, .out = all});
    for (std::size_t r = 0; r < devices; ++r) {
      copy.from.push_back(static_cast<std::int64_t>(r * samples * sample));
      copy.to.push_back(static_cast<std::int64_t>((r * own + part.first(own)) * sample));
      copy.sizes.push_back(static_cast<std::int64_t>(samples * sample));
    }
    return all;
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

  static void gather_all(const Route& route, const TensorRef& gradient, const TensorRef& to,
                         VectorCalls& calls, std::vector<EmbeddingReorderBwd>& reorders) {
    const std::size_t samples = gradient.shape[0], slots = route.params().buckets_per_sample();
    TensorRef packed = gradient;
    if (!gradient.contiguous()) {
      packed = route.packed(gradient.dtype, samples, slots);
      reorders.push_back({.dy = gradient, .dblocks = packed});
    }
    calls.gather(route, packed, to);
  }

  static void send_blocks(const Route& route, const TensorRef& output, VectorCalls& calls,
                          std::vector<EmbeddingReorderFwd>& reorders) {
    const std::size_t samples = output.shape[0];
    const Interleave parts = route.placement().interleave(route.params().embedding_vec_size);
    const BlockCounts counts(route, samples, parts.width);
    const bool direct = parts.devices == 1 && output.contiguous();
    const TensorRef blocks =
        direct ? output : route.packed(output.dtype, samples, route.params().buckets_per_sample());
    const TensorRef own =
        route.pooled(output.dtype, samples * route.device_count(), route.own_slots());
    calls.all_to_all(route, own, blocks, parts.width, counts.own, counts.other,
                     {route.wire_sent(), route.wire_came()});
    if (direct) return;
    reorders.push_back({.blocks = in_parts(blocks, parts),
                        .y = in_parts(output, parts),
                        .device_count = static_cast<std::int64_t>(parts.devices)});
  }

  static void return_blocks(const Route& route, const TensorRef& gradient, const TensorRef& to,
                            VectorCalls& calls, std::vector<EmbeddingReorderBwd>& reorders) {
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
    calls.all_to_all(route, blocks, to, parts.width, counts.other, counts.own,
                     {route.wire_sent(), route.wire_came()});
  }
};

}  // namespace

std::unique_ptr<Exchange> make_pooled_exchange() { return std::make_unique<PooledExchange>(); }

}  // namespace hugectr
