// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/model_check.hpp"

#include <set>

namespace hugectr {

void check_solver(const SolverSpec& solver) {
  std::size_t devices = 0;
  for (const auto& row : solver.vvgpu) devices += row.size();
  HCTR_CHECK(devices > 0, "vvgpu names no device; [[0]] is one device");
  HCTR_CHECK(solver.batchsize > 0 && solver.batchsize % devices == 0, "batchsize ",
             solver.batchsize, " must be a positive multiple of the number of devices, ", devices);
  HCTR_CHECK(solver.batchsize_eval > 0 && solver.batchsize_eval % devices == 0, "batchsize_eval ",
             solver.batchsize_eval, " must be a positive multiple of the number of devices, ",
             devices);
  const bool scales = solver.loss_scale != 0.0 || solver.dynamic_loss_scale;
  HCTR_CHECK(!scales || solver.compute_dtype == TensorScalarType::Float16,
             "loss scaling is for float16, the dense network computes in ",
             to_string(solver.compute_dtype));
  HCTR_CHECK(solver.loss_scale >= 0.0, "loss_scale is ", solver.loss_scale,
             ", must be positive, or 0 for none");
}

void check_model(const ModelSpec& model) {
  const InputSpec& input = model.input;
  HCTR_CHECK(input.label_dim == 1, "label_dim ", input.label_dim,
             " is not supported: BinaryCrossEntropyLoss takes one label a sample");
  HCTR_CHECK(!input.label_name.empty(), "Input: label_name is empty");
  HCTR_CHECK(input.dense_dim == 0 || !input.dense_name.empty(), "Input: dense_name is empty");
  std::set<std::string> names;
  for (const SparseInput& sparse : input.sparse) {
    HCTR_CHECK(names.insert(sparse.top_name).second, "sparse input '", sparse.top_name,
               "' is there twice");
    HCTR_CHECK(sparse.slot_num > 0, "sparse input '", sparse.top_name, "': slot_num must be > 0");
    HCTR_CHECK(sparse.nnz_per_slot.size() == sparse.slot_num, "sparse input '", sparse.top_name,
               "': nnz_per_slot has ", sparse.nnz_per_slot.size(), " entries, slot_num is ",
               sparse.slot_num);
    for (const int nnz : sparse.nnz_per_slot) {
      HCTR_CHECK(nnz > 0, "sparse input '", sparse.top_name, "': nnz_per_slot has ", nnz,
                 ", must be > 0");
    }
  }
  HCTR_CHECK(!model.layers.empty(), "the model has no dense layer; the last one must be a loss");
}

InputLayout input_layout(const SolverSpec& solver, const InputSpec& input) {
  InputLayout layout;
  layout.label_dim = input.label_dim;
  layout.dense_dim = input.dense_dim;
  layout.i64_keys = solver.i64_input_key;
  layout.sparse = input.sparse;
  return layout;
}

std::size_t sparse_input_of(const SparseEmbeddingSpec& spec, const InputSpec& input) {
  std::string known;
  for (std::size_t i = 0; i < input.sparse.size(); ++i) {
    if (input.sparse[i].top_name == spec.bottom) return i;
    known += (i ? ", '" : "'") + input.sparse[i].top_name + "'";
  }
  throw InvalidArgument(
      concat("embedding '", spec.name, "': bottom '", spec.bottom,
             "' is not a sparse input of the model; there are: ", known.empty() ? "none" : known));
}

SparseEmbeddingHashParams embedding_params(const SolverSpec& solver, const ModelSpec& model,
                                           std::size_t index) {
  const SparseEmbeddingSpec& spec = model.embeddings[index];
  HCTR_CHECK(spec.embedding_vec_size >= 1 && spec.embedding_vec_size <= 1024, "embedding '",
             spec.name, "': embedding_vec_size ", spec.embedding_vec_size,
             " must lie between 1 and 1024");
  SparseEmbeddingHashParams params;
  params.name = spec.name;
  params.type = spec.type;
  params.combiner = spec.combiner;
  params.exchange = spec.exchange;
  params.table_id = index;
  params.slot_num = model.input.sparse[sparse_input_of(spec, model.input)].slot_num;
  params.embedding_vec_size = spec.embedding_vec_size;
  params.i64_keys = solver.i64_input_key;
  params.max_vocabulary_size_per_gpu = spec.max_vocabulary_size_per_gpu;
  if (spec.workspace_size_per_gpu_in_mb > 0) {
    const std::size_t bytes = spec.workspace_size_per_gpu_in_mb * 1024 * 1024;
    params.max_vocabulary_size_per_gpu = bytes / (sizeof(float) * spec.embedding_vec_size);
    HCTR_CHECK(params.max_vocabulary_size_per_gpu > 0, "embedding '", spec.name,
               "': workspace_size_per_gpu_in_mb ", spec.workspace_size_per_gpu_in_mb,
               " does not hold one row of ", spec.embedding_vec_size, " float32");
  }
  params.slot_size_array = spec.slot_size_array;
  HCTR_CHECK(spec.slot_size_array.empty() || spec.slot_size_array.size() == params.slot_num,
             "embedding '", spec.name, "': slot_size_array has ", spec.slot_size_array.size(),
             " entries, its input has ", params.slot_num, " slots");
  params.opt_params = spec.opt_params.value_or(model.opt_params);
  params.batch_size = solver.batchsize;
  params.batch_size_eval = solver.batchsize_eval;
  return params;
}

}  // namespace hugectr
