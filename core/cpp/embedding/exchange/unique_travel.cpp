// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/exchange/unique_exchange.hpp"
#include "core/cpp/embedding/exchange/vector_calls.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "core/cpp/ops/embedding_lookup.hpp"

/// What a step does with the plan of distinct rows; how it is made is in unique_exchange.cpp.
namespace hugectr {
namespace {

/// Elements begin .. begin + n - 1 of a buffer: FlatBuffer or TensorBag2.
template <class Buffer>
TensorRef range_of(const Buffer& buffer, std::size_t begin, std::size_t n) {
  TensorRef ref = buffer.first(n);
  ref.data = static_cast<char*>(ref.data) + begin * size_of(ref.dtype);
  return ref;
}

/// Of buckets of a device's samples; empty: 1.
TensorRef scale_of(const Shipment& table, std::size_t begin, std::size_t buckets) {
  return table.route->params().combiner == Combiner::Mean
             ? range_of(table.plan->unique.scale, begin, buckets)
             : TensorRef{};
}

/// Vectors of a micro-batch among those of all.
TensorRef vectors_in(TensorRef all, const RowsOfPart& rows) {
  all.data = static_cast<char*>(all.data) + rows.first * all.row_stride * size_of(all.dtype);
  all.shape[0] = rows.count;
  return all;
}

/// Memory for the rows that other devices ask of this one, and for those that come to it.
TensorRef asked_vectors(const Shipment& table, TensorScalarType type) {
  const UniquePlan& unique = table.plan->unique;
  const std::size_t rows = unique.asked_rows();
  return unique.room ? unique.room->asked(type, rows) : table.route->pooled(type, rows, 1);
}
TensorRef given_vectors(const Shipment& table, TensorScalarType type) {
  const UniquePlan& unique = table.plan->unique;
  const std::size_t rows = unique.given_rows();
  return unique.room ? unique.room->given(type, rows) : table.route->packed(type, rows, 1);
}

/// The same for their bytes, where they are packed.
TensorRef asked_bytes(const Shipment& table) {
  const std::shared_ptr<const RowRoom>& room = table.plan->unique.room;
  return room ? room->asked_bytes() : table.route->wire_sent();
}
TensorRef given_bytes(const Shipment& table) {
  const std::shared_ptr<const RowRoom>& room = table.plan->unique.room;
  return room ? room->given_bytes() : table.route->wire_came();
}

}  // namespace

/// Owners give the rows that were asked for; who asked pools them.
void UniqueExchange::forward(const OpContext& context, std::span<const Shipment> tables,
                             const Rounding& rounding, MicroBatch part) const {
  std::vector<EmbeddingLookup> gathers, handed, pools;
  gathers.reserve(tables.size());
  pools.reserve(tables.size());
  VectorCalls calls(rounding, VectorCalls::Direction::Forward);
  VectorCalls inside(rounding, VectorCalls::Direction::Forward);  // of nodes
  for (const Shipment& table : tables) {
    const UniquePlan& unique = table.plan->unique;
    const TensorRef output = part.of(table.vectors);
    const std::size_t d = output.shape[2], buckets = output.shape[0] * output.shape[1];
    const RowsOfPart asked = unique.asked_in(part), given = unique.given_in(part);
    const TensorRef rows = vectors_in(asked_vectors(table, output.dtype), asked);
    TensorRef all_given = given_vectors(table, output.dtype);
    if (asked.count > 0) {
      gathers.push_back({.rows = table.plan->staged.of_keys,
                         .row_offsets = range_of(unique.places, asked.first, asked.count + 1),
                         .weights = table.plan->staged.arrays.vectors,
                         .out = rows});
    }
    const TensorRef sent = asked_bytes(table), got = given_bytes(table);
    if (relay_) {
      const RelayPlan& relay = unique.relay;
      const RowsOfPart came = relay.came_in(part), hand = relay.handed_in(part);
      TensorRef all_came = relay.room->given(output.dtype, relay.came_rows());
      const TensorRef hands =
          vectors_in(relay.room->asked(output.dtype, relay.handed_rows()), hand);
      calls.all_to_all(*table.route, rows, vectors_in(all_came, came), d, asked.of_device,
                       came.of_device, {sent, relay.room->given_bytes()});
      all_came.shape = {relay.came_rows(), d};
      if (hand.count > 0) {
        handed.push_back({.rows = TablePlan::first(relay.rows, relay.handed_rows()),
                          .row_offsets = range_of(relay.places, hand.first, hand.count + 1),
                          .weights = all_came,
                          .out = hands});
      }
      inside.all_to_all(*table.route, hands, vectors_in(all_given, given), d, hand.of_device,
                        given.of_device, {relay.room->asked_bytes(), got});
    } else {
      calls.all_to_all(*table.route, rows, vectors_in(all_given, given), d, asked.of_device,
                       given.of_device, {sent, got});
    }
    all_given.shape = {unique.given_rows(), d};
    const std::size_t first = part.index * buckets;
    pools.push_back({.rows = TablePlan::first(unique.given_places, unique.keys),
                     .row_offsets = range_of(unique.row_offsets, first, buckets + 1),
                     .weights = all_given,
                     .scale = scale_of(table, first, buckets),
                     .out = output});
  }
  run_several(context, std::move(gathers));
  calls.run(context);
  run_several(context, std::move(handed));
  inside.run(context);
  run_several(context, std::move(pools));
}

/// Who asked sums its gradients by row and gives the sums back.
void UniqueExchange::backward(const OpContext& context, std::span<Shipment> tables,
                              const Rounding& rounding, MicroBatch part) const {
  std::vector<EmbeddingGradient> gradients, of_node;
  gradients.reserve(tables.size());
  VectorCalls calls(rounding, VectorCalls::Direction::Backward);
  VectorCalls inside(rounding, VectorCalls::Direction::Backward);  // of nodes
  for (Shipment& table : tables) {
    const UniquePlan& unique = table.plan->unique;
    const TensorRef gradient = table.vectors;  // of all samples: buckets are numbered so
    const std::size_t d = gradient.shape[2];
    const RowsOfPart asked = unique.asked_in(part), given = unique.given_in(part);
    const TensorScalarType type = sum_type(table.route->params(), gradient.dtype);
    TensorRef sums = vectors_in(given_vectors(table, type), given);
    table.vectors = asked_vectors(table, type);
    sums.shape = {given.count, d};
    gradients.push_back({.sorted_buckets = TablePlan::first(unique.sorted_buckets, unique.keys),
                         .run_offsets = range_of(unique.run_offsets, given.first, given.count + 1),
                         .gradient = gradient,
                         .scale = scale_of(table, 0, gradient.shape[0] * gradient.shape[1]),
                         .sums = sums});
    const TensorRef sent = given_bytes(table), got = asked_bytes(table);
    const TensorRef to = vectors_in(table.vectors, asked);
    if (relay_) {
      const RelayPlan& relay = unique.relay;
      const RowsOfPart came = relay.came_in(part), hand = relay.handed_in(part);
      const TensorRef handed = relay.room->asked(type, relay.handed_rows());
      TensorRef added = vectors_in(relay.room->given(type, relay.came_rows()), came);
      inside.all_to_all(*table.route, sums, vectors_in(handed, hand), d, given.of_device,
                        hand.of_device, {sent, relay.room->asked_bytes()});
      added.shape = {came.count, d};
      of_node.push_back({.sorted_buckets = TablePlan::first(relay.order, relay.handed_rows()),
                         .run_offsets = range_of(relay.run_offsets, came.first, came.count + 1),
                         .gradient = handed,
                         .sums = added});
      calls.all_to_all(*table.route, added, to, d, came.of_device, asked.of_device,
                       {relay.room->given_bytes(), got});
    } else {
      calls.all_to_all(*table.route, sums, to, d, given.of_device, asked.of_device, {sent, got});
    }
  }
  run_several(context, std::move(gradients));
  inside.run(context);
  run_several(context, std::move(of_node));
  calls.run(context);
}

}  // namespace hugectr
