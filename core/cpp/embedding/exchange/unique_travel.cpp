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

/// Of the buckets of a device's samples; empty: 1.
TensorRef scale_of(const Shipment& table, std::size_t buckets) {
  return table.route->params().combiner == Combiner::Mean
             ? TablePlan::first(table.plan->unique.scale, buckets)
             : TensorRef{};
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
                             const Rounding& rounding) const {
  std::vector<EmbeddingLookup> gathers, pools;
  VectorCalls calls(rounding, VectorCalls::Direction::Forward);
  for (const Shipment& table : tables) {
    const UniquePlan& unique = table.plan->unique;
    const TensorRef& output = table.vectors;
    const std::size_t d = output.shape[2], buckets = output.shape[0] * output.shape[1];
    const std::size_t asked = unique.asked_rows(), given = unique.given_rows();
    const TensorRef rows = asked_vectors(table, output.dtype);
    TensorRef came = given_vectors(table, output.dtype);
    if (asked > 0) {
      gathers.push_back({.rows = table.plan->staged.of_keys,
                         .row_offsets = TablePlan::first(unique.places, asked + 1),
                         .weights = table.plan->staged.arrays.vectors,
                         .out = rows});
    }
    calls.all_to_all(*table.route, rows, came, d, unique.asked, unique.given,
                     {asked_bytes(table), given_bytes(table)});
    came.shape = {given, d};
    pools.push_back({.rows = TablePlan::first(unique.given_places, unique.keys),
                     .row_offsets = TablePlan::first(unique.row_offsets, buckets + 1),
                     .weights = came,
                     .scale = scale_of(table, buckets),
                     .out = output});
  }
  run_several(context, std::move(gathers));
  calls.run(context);
  run_several(context, std::move(pools));
}

/// Who asked sums its gradients by row and gives the sums back.
void UniqueExchange::backward(const OpContext& context, std::span<Shipment> tables,
                              const Rounding& rounding) const {
  std::vector<EmbeddingGradient> gradients;
  VectorCalls calls(rounding, VectorCalls::Direction::Backward);
  for (Shipment& table : tables) {
    const UniquePlan& unique = table.plan->unique;
    const TensorRef gradient = table.vectors;
    const std::size_t d = gradient.shape[2];
    const std::size_t given = unique.given_rows();
    const TensorScalarType type = sum_type(table.route->params(), gradient.dtype);
    TensorRef sums = given_vectors(table, type);
    table.vectors = asked_vectors(table, type);
    sums.shape = {given, d};
    gradients.push_back({.sorted_buckets = TablePlan::first(unique.sorted_buckets, unique.keys),
                         .run_offsets = TablePlan::first(unique.run_offsets, given + 1),
                         .gradient = gradient,
                         .scale = scale_of(table, gradient.shape[0] * gradient.shape[1]),
                         .sums = sums});
    calls.all_to_all(*table.route, sums, table.vectors, d, unique.given, unique.asked,
                     {given_bytes(table), asked_bytes(table)});
  }
  run_several(context, std::move(gradients));
  calls.run(context);
}

}  // namespace hugectr
