// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/row_room.hpp"

#include <algorithm>

#include "core/cpp/embedding/exchange/vector_calls.hpp"
#include "core/cpp/embedding/lookup/lookup_plan.hpp"

namespace hugectr {

std::shared_ptr<const RowRoom> RowRoom::larger(const Route& route, const RowRoom* former,
                                               const std::shared_ptr<MemoryResource>& memory,
                                               const std::string& owner, std::size_t asked,
                                               std::size_t given) {
  const auto rows_of = [](std::size_t rows, std::size_t before) {
    return std::max(TablePlan::with_reserve(rows), before);
  };
  const SparseEmbeddingHashParams& params = route.params();
  const TensorScalarType type = sum_type(params, params.output_type);
  const std::size_t d = params.embedding_vec_size;
  const std::shared_ptr<RowRoom> room(new RowRoom);
  room->asked_rows_ = rows_of(asked, former ? former->asked_rows_ : 0);
  room->given_rows_ = rows_of(given, former ? former->given_rows_ : 0);
  room->arena_ = DeviceBuffer2::create(owner + " rows on their way", DeviceAllocator(memory));
  room->asked_ = room->arena_->reserve({room->asked_rows_, d}, type, "rows asked for");
  room->given_ = room->arena_->reserve({room->given_rows_, d}, type, "rows that come");
  if (travel_packed(params, type)) {
    const std::size_t bytes = wire_bytes(params.wire, d);
    const auto bytes_of = [&](std::size_t rows, const char* name) {
      return room->arena_->reserve({rows * bytes}, TensorScalarType::UInt8, name);
    };
    room->asked_bytes_ = bytes_of(room->asked_rows_, "bytes asked for");
    room->given_bytes_ = bytes_of(room->given_rows_, "bytes that come");
  }
  room->arena_->allocate();
  return room;
}

bool RowRoom::fits_route(const Route& route, std::size_t asked, std::size_t given) {
  const TensorScalarType type = route.params().output_type;
  const std::size_t factor = size_of(sum_type(route.params(), type)) / size_of(type);
  return asked * factor <= route.pooled_vectors(route.rank()) &&
         given * factor <= route.packed_vectors();
}

RowRoom::Rows RowRoom::most_rows(const Route& route, std::size_t own_keys,
                                 std::size_t sample_keys) {
  const SparseEmbeddingHashParams& params = route.params();
  if (params.exchange == ExchangeType::Unique) return {own_keys, sample_keys};
  const std::size_t forward = vector_bytes(params, params.output_type);
  const std::size_t back = vector_bytes(params, sum_type(params, params.output_type));
  // 3/4 of what pooled vectors are there and back, and the device's own share beside them.
  const std::size_t pooled =
      params.batch_size * route.placement().most_slots() * 3 * forward / (2 * (forward + back));
  return {std::min(own_keys, pooled), std::min(sample_keys, pooled)};
}

std::size_t RowRoom::vector_bytes(const SparseEmbeddingHashParams& params, TensorScalarType type) {
  const std::size_t d = params.embedding_vec_size;
  return travel_packed(params, type) ? wire_bytes(params.wire, d) : d * size_of(type);
}

TensorRef RowRoom::vectors(TensorRef buffer, TensorScalarType type, std::size_t rows) {
  const std::size_t d = buffer.shape[1];
  HCTR_CHECK(rows * d * size_of(type) <= buffer.size_in_bytes(), rows, " rows of ", d, " ",
             to_string(type), " are more than their memory was made for");
  buffer.dtype = type;
  buffer.shape = {rows, 1, d};
  buffer.row_stride = d;
  return buffer;
}

}  // namespace hugectr
