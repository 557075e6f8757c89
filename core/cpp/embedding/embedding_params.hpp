// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/base/scalar_type.hpp"
#include "core/cpp/embedding/placement/embedding_type.hpp"
#include "core/cpp/embedding/table/row_life.hpp"
#include "core/cpp/embedding/table/table_memory.hpp"
#include "core/cpp/ops/loops/wire_numbers.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {

/// How the vectors of a slot become what layers see. Concat: they stay apart, each in a position of
/// its own, zeros behind the last.
enum class Combiner { Sum, Mean, Concat };
/// How vectors of a training batch travel between devices: pooled by the owners of rows, or each
/// distinct row once, pooled where it is used. Auto: rows where they are at most three quarters of
/// the bytes, batch by batch.
enum class ExchangeType { Auto, Pooled, Unique };

/// What new rows hold.
struct InitialVectors {
  /// Uniform: in +-bound; 0: as v3 does it (slot_size_array). Sinusoidal: a function of key and
  /// column alone (sinusoidal_value()).
  enum class Kind { Uniform, Sinusoidal };
  Kind kind = Kind::Uniform;
  double bound = 0.0;
};

/// One SparseEmbedding of a model: a table, and how its vectors are asked for.
struct SparseEmbeddingHashParams {
  std::string name;  ///< what messages call the table
  std::string top;   ///< tensor of its vectors in the network
  /// v3's type: what makes a row another row, and where rows are unless `placement` says so.
  EmbeddingType type = EmbeddingType::DistributedSlotSparseEmbeddingHash;
  std::optional<PlacementKind> placement;
  /// One device: which (global id). By column: the first of those that columns are dealt among.
  std::size_t placement_device = 0;
  /// Hybrid: keys whose rows every device has, each once.
  std::vector<std::int64_t> frequent;
  Combiner combiner = Combiner::Sum;
  ExchangeType exchange = ExchangeType::Auto;
  /// What a number of a vector travels as between devices, forward and back; Own: as it is.
  WireType wire = WireType::Own;
  std::size_t table_id = 0;  ///< position in the model; part of the seed of new rows
  std::size_t slot_num = 0;
  /// Combiner::Concat: how many positions each slot has.
  std::vector<std::size_t> positions;
  std::size_t embedding_vec_size = 0;  ///< d, 1..1024
  bool i64_keys = false;
  /// What exchange buffers are made for: forward()'s output and its gradient may hold float32,
  /// float16 or bfloat16, of this size at most.
  TensorScalarType output_type = TensorScalarType::Float32;
  /// What the vectors of rows are kept in: float32 or bfloat16 (RowParts).
  TensorScalarType vector_type = TensorScalarType::Float32;
  /// Rows a device may hold; 0 = as many as memory takes.
  std::size_t max_vocabulary_size_per_gpu = 0;
  /// Tables of the model, which share the addresses of a process (rows_without_budget()).
  std::size_t tables_of_model = 1;
  /// Where slots are part of identity: slot k's new rows are uniform in +-sqrt(1/size[k]), else
  /// +-0.05. The budget is then the sum over the device's slots, and wins over
  /// max_vocabulary_size_per_gpu.
  std::vector<std::size_t> slot_size_array;
  /// Slots have the keys that slot_size_array says and no others: their rows are found by a direct
  /// index instead of a hashed one. Where slots are part of identity.
  bool direct = false;
  InitialVectors initial;
  RowLife life;
  OptParams opt_params;
  TableMemory memory;
  std::size_t batch_size = 0;       ///< global, training
  std::size_t batch_size_eval = 0;  ///< global
  /// Parts that a device's samples of a training batch travel in; alike in all tables of a group.
  std::size_t micro_batches = 1;

  Identity identity() const { return identity_of(type); }
  bool pooled() const { return combiner != Combiner::Concat; }
  /// Buckets of a sample, each of which becomes a vector: its slots, or all positions of them.
  std::size_t buckets_per_sample() const {
    return pooled() ? slot_num
                    : std::accumulate(positions.begin(), positions.end(), std::size_t{0});
  }
  /// Rows whose positions are to be anywhere are placed by key, whatever the type.
  PlacementKind placement_kind() const {
    return placement.value_or(pooled() ? placement_of(type) : PlacementKind::ByKey);
  }
  TensorScalarType key_type() const {
    return i64_keys ? TensorScalarType::Int64 : TensorScalarType::UInt32;
  }
};

}  // namespace hugectr
