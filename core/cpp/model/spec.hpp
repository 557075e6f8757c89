// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/scalar_type.hpp"
#include "core/cpp/data/csr_chunk.hpp"
#include "core/cpp/device/device_map.hpp"
#include "core/cpp/embedding/embedding_params.hpp"
#include "core/cpp/layers/layer_spec.hpp"
#include "core/cpp/model/learning_rate.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

/// What a model is, as users write it. Where its samples come from is a ReaderSpec
/// (core/cpp/data/make_source.hpp).
namespace hugectr {

/// Settings of a training run (hugectr.CreateSolver). Batch sizes are global.
struct SolverSpec {
  std::string model_name;
  std::uint64_t seed = 0;  ///< 0 draws one
  std::size_t batchsize = 2048;
  std::size_t batchsize_eval = 2048;
  std::size_t max_eval_batches = 100;
  std::vector<std::vector<int>> vvgpu{{0}};
  DeviceType device = DeviceType::Cpu;
  DeviceLayout device_layout = DeviceLayout::LocalFirst;
  bool repeat_dataset = true;
  bool drop_incomplete_batch = false;
  LearningRateParams lr;
  bool i64_input_key = false;
  std::vector<std::string> metrics{"AUC"};  ///< names in the catalogue of core/cpp/metrics
  /// Float16 or BFloat16: mixed precision. The dense network computes in 16 bits; weights, tables,
  /// their gradients and optimizer states stay float32, and so do all files.
  TensorScalarType compute_dtype = TensorScalarType::Float32;
  bool fp8 = false;         ///< BFloat16: linear layers multiply in fp8 where they train
  double loss_scale = 0.0;  ///< float16: factor of all gradients; 0 for none, or for dynamic: the
                            ///< first one in common use
  bool dynamic_loss_scale = false;   ///< float16: halved on overflow, doubled after 2000 good steps
  bool tf32 = false;                 ///< float32 products may round their factors to tf32
  bool use_algorithm_search = true;  ///< time the products' algorithms that give equal bits
  bool use_cuda_graph = true;        ///< submit the dense part of a step as a whole where possible
  /// Parts that a device's samples of a training step go through the network in, while vectors and
  /// gradients of others are on their way between devices.
  std::size_t micro_batches = 1;
};

/// Neighbouring label columns under a name of their own.
struct LabelInput {
  std::string name;
  std::size_t dim = 1;
};

/// What the columns of the data are called, and how wide they are.
struct InputSpec {
  std::string label_name, dense_name;
  std::size_t label_dim = 1, dense_dim = 0;
  /// Several labels instead of the one of label_name; label_dim is the sum of theirs.
  std::vector<LabelInput> labels;
  /// The label whose values are the groups that GAUC ranks within; "": none.
  std::string group_name;
  std::vector<SparseInput> sparse;
};

/// A table, and how its vectors are asked for.
struct SparseEmbeddingSpec {
  EmbeddingType type = EmbeddingType::DistributedSlotSparseEmbeddingHash;
  std::size_t workspace_size_per_gpu_in_mb = 0;  ///< weights only; 0 = no bound
  std::size_t max_vocabulary_size_per_gpu = 0;   ///< rows; used when the workspace is 0
  std::size_t embedding_vec_size = 0;
  std::optional<PlacementKind> placement;  ///< none: as the type says
  std::size_t placement_device = 0;        ///< SparseEmbeddingHashParams
  std::vector<std::int64_t> frequent;      ///< likewise
  Combiner combiner = Combiner::Sum;
  ExchangeType exchange = ExchangeType::Auto;
  WireType wire = WireType::Own;
  std::string name;
  std::string top;                   ///< tensor of its vectors; "": as the table is called
  std::vector<std::string> bottoms;  ///< sparse inputs; of several the table has all slots
  std::vector<std::size_t> slot_size_array;
  TensorScalarType vector_type = TensorScalarType::Float32;  ///< RowParts
  bool direct = false;                                       ///< likewise
  InitialVectors initial;
  RowLife life;
  std::optional<OptParams> opt_params;  ///< none: the model's
  TableMemory memory;
};

/// A model. Without a loss among its layers nothing of it trains, whatever `trains` says.
struct ModelSpec {
  InputSpec input;
  std::vector<SparseEmbeddingSpec> embeddings;
  std::vector<DenseLayerSpec> layers;  ///< in add order
  OptParams opt_params;
  /// False: only what evaluation needs is built, with no gradient, optimizer state or training
  /// plan. Weights and rows are loaded, and eval() gives the bits of the model that trained them.
  bool trains = true;
};

}  // namespace hugectr
