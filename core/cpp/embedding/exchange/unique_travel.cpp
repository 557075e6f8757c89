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

/// `count` rows from number `first` on.
TensorRef rows_from(TensorRef all, std::size_t first, std::size_t count) {
  all.data = static_cast<char*>(all.data) + first * all.row_stride * size_of(all.dtype);
  all.shape[0] = count;
  return all;
}

/// Vectors of a micro-batch among those of all.
TensorRef vectors_in(TensorRef all, const RowsOfPart& rows) {
  return rows_from(std::move(all), rows.first, rows.count);
}

/// Rows of one micro-batch, by who has or gets them: [0, first) and [end, all) others, between them
/// the device itself.
struct OwnRows {
  OwnRows(const RowsOfPart& rows, std::size_t rank) : all(rows.count) {
    for (std::size_t r = 0; r < rank; ++r) first += rows.of_device[r];
    end = first + rows.of_device[rank];
  }
  std::size_t first = 0, end = 0, all;

  /// Calls f(first, count) of what is others'.
  template <class F>
  void for_others(const F& f) const {
    if (first > 0) f(std::size_t{0}, first);
    if (all > end) f(end, all - end);
  }
  std::size_t count() const { return end - first; }
};

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

bool UniqueExchange::stays_apart(const Shipment& table, TensorScalarType type,
                                 const RowsOfPart& rows) const {
  if (relay_ || travel_packed(table.route->params(), type)) return false;
  const std::size_t bytes = table.vectors.shape[2] * size_of(type);
  return rows.of_device[rank_] > 0 && rows.of_device[rank_] * bytes >= apart_bytes_;
}

template <class Op>
void UniqueExchange::travel(const OpContext& context, VectorCalls& calls,
                            std::vector<Op> staying) const {
  if (staying.empty()) return calls.run(context);
  if (!stayed_) {
    run_several(context, std::move(staying));
    return calls.run(context);
  }
  const OpContext beside = gpu_.staying_context();
  context.stream->record(*before_staying_);
  beside.stream->wait(*before_staying_);
  calls.run(context);
  run_several(beside, std::move(staying));
  beside.stream->record(*stayed_);
  context.stream->wait(*stayed_);
}

/// Owners give the rows that were asked for; who asked pools them.
void UniqueExchange::forward(const OpContext& context, std::span<const Shipment> tables,
                             const Rounding& rounding, MicroBatch part) const {
  std::vector<EmbeddingLookup> gathers, staying, handed, pools;
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
    const auto gather = [&](std::size_t first, std::size_t count, const TensorRef& out) {
      return EmbeddingLookup{.rows = table.plan->staged.of_keys,
                             .row_offsets = range_of(unique.places, asked.first + first, count + 1),
                             .weights = table.plan->staged.arrays.vectors,
                             .out = out};
    };
    const bool apart = stays_apart(table, output.dtype, asked);
    if (apart) {
      const OwnRows from(asked, rank_), to(given, rank_);
      from.for_others([&](std::size_t first, std::size_t count) {
        gathers.push_back(gather(first, count, rows_from(rows, first, count)));
      });
      staying.push_back(gather(from.first, from.count(),
                               rows_from(all_given, given.first + to.first, to.count())));
    } else if (asked.count > 0) {
      gathers.push_back(gather(0, asked.count, rows));
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
        handed.push_back({.rows = relay.rows.first(relay.handed_rows()),
                          .row_offsets = range_of(relay.places, hand.first, hand.count + 1),
                          .weights = all_came,
                          .out = hands});
      }
      inside.all_to_all(*table.route, hands, vectors_in(all_given, given), d, hand.of_device,
                        given.of_device, {relay.room->asked_bytes(), got});
    } else {
      calls.all_to_all(*table.route, rows, vectors_in(all_given, given), d, asked.of_device,
                       given.of_device, {sent, got}, apart);
    }
    all_given.shape = {unique.given_rows(), d};
    const std::size_t first = part.index * buckets;
    pools.push_back({.rows = unique.given_places.first(unique.keys),
                     .row_offsets = range_of(unique.row_offsets, first, buckets + 1),
                     .weights = all_given,
                     .scale = scale_of(table, first, buckets),
                     .out = output});
  }
  run_several(context, std::move(gathers));
  travel(context, calls, std::move(staying));
  run_several(context, std::move(handed));
  inside.run(context);
  run_several(context, std::move(pools));
}

/// Who asked sums its gradients by row and gives the sums back.
void UniqueExchange::backward(const OpContext& context, std::span<Shipment> tables,
                              const Rounding& rounding, MicroBatch part) const {
  std::vector<EmbeddingGradient> gradients, staying, of_node;
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
    const TensorRef sent = given_bytes(table), got = asked_bytes(table);
    const TensorRef to = vectors_in(table.vectors, asked);
    const auto sum = [&](std::size_t first, std::size_t count, TensorRef out) {
      out.shape = {count, d};
      const std::size_t begin = given.first + first;
      return EmbeddingGradient{.sorted_buckets = unique.sorted_buckets.first(unique.keys),
                               .run_offsets = range_of(unique.run_offsets, begin, count + 1),
                               .gradient = gradient,
                               .scale = scale_of(table, 0, gradient.shape[0] * gradient.shape[1]),
                               .sums = std::move(out)};
    };
    const bool apart = stays_apart(table, type, given);
    if (apart) {
      const OwnRows from(given, rank_), own(asked, rank_);
      from.for_others([&](std::size_t first, std::size_t count) {
        gradients.push_back(sum(first, count, rows_from(sums, first, count)));
      });
      staying.push_back(sum(from.first, from.count(), rows_from(to, own.first, own.count())));
    } else {
      gradients.push_back(sum(0, given.count, sums));
    }
    if (relay_) {
      const RelayPlan& relay = unique.relay;
      const RowsOfPart came = relay.came_in(part), hand = relay.handed_in(part);
      const TensorRef handed = relay.room->asked(type, relay.handed_rows());
      TensorRef added = vectors_in(relay.room->given(type, relay.came_rows()), came);
      inside.all_to_all(*table.route, sums, vectors_in(handed, hand), d, given.of_device,
                        hand.of_device, {sent, relay.room->asked_bytes()});
      added.shape = {came.count, d};
      of_node.push_back({.sorted_buckets = relay.order.first(relay.handed_rows()),
                         .run_offsets = range_of(relay.run_offsets, came.first, came.count + 1),
                         .gradient = handed,
                         .sums = added});
      calls.all_to_all(*table.route, added, to, d, came.of_device, asked.of_device,
                       {relay.room->given_bytes(), got});
    } else {
      calls.all_to_all(*table.route, sums, to, d, given.of_device, asked.of_device, {sent, got},
                       apart);
    }
  }
  run_several(context, std::move(gradients));
  inside.run(context);
  run_several(context, std::move(of_node));
  travel(context, calls, std::move(staying));
}

}  // namespace hugectr
