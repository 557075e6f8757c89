// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/vector_calls.hpp"

#include <utility>

#include "core/cpp/comm/communicator.hpp"
#include "core/cpp/device/several.hpp"

namespace hugectr {
namespace {

TensorRef as_vectors(TensorRef ref, std::size_t width) {
  ref.shape = {ref.size() / width, width};
  ref.row_stride = width;
  return ref;
}

/// The first vectors of a memory of bytes, as it is packed.
TensorRef as_bytes(TensorRef memory, std::size_t vectors, std::size_t bytes) {
  HCTR_CHECK(vectors * bytes <= memory.size_in_bytes(), vectors, " vectors of ", bytes,
             " bytes are more than the ", memory.size_in_bytes(), " that may travel");
  memory.shape = {vectors, bytes};
  memory.row_stride = bytes;
  return memory;
}

std::vector<std::size_t> scaled(std::vector<std::size_t> counts, std::size_t factor) {
  for (std::size_t& count : counts) count *= factor;
  return counts;
}

}  // namespace

bool travel_packed(const SparseEmbeddingHashParams& params, TensorScalarType type) {
  switch (params.wire) {
    case WireType::BFloat16:
      return type != TensorScalarType::BFloat16;
    case WireType::Float16:
      return type != TensorScalarType::Float16;
    case WireType::Float8:
      return true;
    default:
      return false;
  }
}

TensorRef VectorCalls::pack(const Route& route, const TensorRef& vectors, std::size_t width,
                            TensorRef memory) {
  const SparseEmbeddingHashParams& params = route.params();
  const TensorRef x = as_vectors(vectors, width);
  const TensorRef y = as_bytes(std::move(memory), x.shape[0], wire_bytes(params.wire, width));
  const auto table = static_cast<std::int64_t>(2 * params.table_id);
  packs_.push_back({.x = x,
                    .step = rounding_.step,
                    .y = y,
                    .type = params.wire,
                    .seed = rounding_.seed,
                    .stream = table + (direction_ == Direction::Forward ? 0 : 1)});
  return y;
}

void VectorCalls::unpack(const Route& route, const TensorRef& bytes, const TensorRef& vectors,
                         std::size_t width, std::size_t blocks) {
  unpacks_.push_back({.x = bytes,
                      .y = as_vectors(vectors, width),
                      .type = route.params().wire,
                      .blocks = static_cast<std::int64_t>(blocks)});
}

void VectorCalls::all_to_all(const Route& route, const TensorRef& in, const TensorRef& out,
                             std::size_t width, const std::vector<std::size_t>& sent,
                             const std::vector<std::size_t>& came, const Room& room,
                             bool own_apart) {
  if (!travel_packed(route.params(), in.dtype)) {
    calls_.push_back(all_to_all_call(in, scaled(sent, width), out, scaled(came, width), own_apart));
    return;
  }
  HCTR_CHECK(!own_apart, "vectors that are packed for their way go it together");
  const std::size_t bytes = wire_bytes(route.params().wire, width);
  const TensorRef to = as_bytes(room.came, out.size() / width, bytes);
  calls_.push_back(all_to_all_call(pack(route, in, width, room.sent), scaled(sent, bytes), to,
                                   scaled(came, bytes)));
  unpack(route, to, out, width, 1);
}

void VectorCalls::add_parts(const Route& route, const TensorRef& in, const TensorRef& out) {
  if (!travel_packed(route.params(), in.dtype)) {
    calls_.push_back({.collective = "reduce_scatter", .in = in, .out = out});
    return;
  }
  const std::size_t width = in.shape.back(), bytes = wire_bytes(route.params().wire, width);
  const std::size_t devices = route.device_count(), vectors = in.size() / width;
  const TensorRef to = as_bytes(route.wire_came(), vectors, bytes);
  const std::vector<std::size_t> counts(devices, vectors / devices * bytes);
  calls_.push_back(all_to_all_call(pack(route, in, width, route.wire_sent()), counts, to, counts));
  unpack(route, to, out, width, devices);
}

void VectorCalls::gather(const Route& route, const TensorRef& in, const TensorRef& out) {
  if (!travel_packed(route.params(), in.dtype)) {
    calls_.push_back({.collective = "all_gather", .in = in, .out = out});
    return;
  }
  const std::size_t width = in.shape.back(), bytes = wire_bytes(route.params().wire, width);
  const TensorRef to = as_bytes(route.wire_came(), out.size() / width, bytes);
  calls_.push_back(
      {.collective = "all_gather", .in = pack(route, in, width, route.wire_sent()), .out = to});
  unpack(route, to, out, width, 1);
}

void VectorCalls::run(const OpContext& context) {
  if (calls_.empty()) return;
  run_several(context, std::move(packs_));
  context.communicator->together(calls_, *context.stream);
  run_several(context, std::move(unpacks_));
}

}  // namespace hugectr
