// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/embedding/exchange/exchange.hpp"
#include "core/cpp/ops/wire_vectors.hpp"

namespace hugectr {

/// Collectives that vectors of a group of tables travel by, all in one, each table's in the type
/// that its vectors travel in (SparseEmbeddingHashParams::wire). Where that is not the type they
/// are in, they are packed before and unpacked behind; sums of parts are then taken by who receives
/// them, in float32, with as many bytes on the way.
class VectorCalls {
 public:
  enum class Direction { Forward, Backward };
  VectorCalls(const Rounding& rounding, Direction direction)
      : rounding_(rounding), direction_(direction) {}

  /// Memory for the bytes of vectors of one table, at least as large as they are.
  struct Room {
    TensorRef sent, came;
  };

  /// Counts of vectors of `width` numbers. own_apart: CollectiveCall's; not of packed ones.
  void all_to_all(const Route& route, const TensorRef& in, const TensorRef& out, std::size_t width,
                  const std::vector<std::size_t>& sent, const std::vector<std::size_t>& came,
                  const Room& room, bool own_apart = false);
  /// in: vectors of all devices' samples, out: sums over devices of those of this one's samples.
  void add_parts(const Route& route, const TensorRef& in, const TensorRef& out);
  /// in: vectors of this device's samples, out: those of all.
  void gather(const Route& route, const TensorRef& in, const TensorRef& out);

  bool empty() const { return calls_.empty(); }
  void run(const OpContext& context);

 private:
  /// Packs n vectors into the memory to send from.
  TensorRef pack(const Route& route, const TensorRef& vectors, std::size_t width, TensorRef memory);
  void unpack(const Route& route, const TensorRef& bytes, const TensorRef& vectors,
              std::size_t width, std::size_t blocks);

  const Rounding& rounding_;
  Direction direction_;
  std::vector<WirePack> packs_;
  std::vector<CollectiveCall> calls_;
  std::vector<WireUnpack> unpacks_;
};

/// Whether vectors of `type` travel as something else.
bool travel_packed(const SparseEmbeddingHashParams& params, TensorScalarType type);

}  // namespace hugectr
