// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/model_check.hpp"

#include <set>

#include "core/cpp/model/build.hpp"
#include "core/cpp/model/label_inputs.hpp"
#include "core/cpp/model/step_scalars.hpp"

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
  HCTR_CHECK(solver.micro_batches >= 1 && solver.micro_batches <= kMostMicroBatches,
             "micro_batches ", solver.micro_batches, " must be 1 to ", kMostMicroBatches);
  HCTR_CHECK(solver.batchsize % (devices * solver.micro_batches) == 0, "batchsize ",
             solver.batchsize, " must be a multiple of ", devices * solver.micro_batches, ": ",
             devices, " devices times micro_batches ", solver.micro_batches);
  const bool scales = solver.loss_scale != 0.0 || solver.dynamic_loss_scale;
  HCTR_CHECK(!scales || solver.compute_dtype == TensorScalarType::Float16,
             "loss scaling is for float16, the dense network computes in ",
             to_string(solver.compute_dtype));
  HCTR_CHECK(!solver.fp8 || solver.compute_dtype == TensorScalarType::BFloat16,
             "fp8 products are for bfloat16, the dense network computes in ",
             to_string(solver.compute_dtype));
  HCTR_CHECK(solver.loss_scale >= 0.0, "loss_scale is ", solver.loss_scale,
             ", must be positive, or 0 for none");
}

namespace {

void check_labels(const InputSpec& input) {
  HCTR_CHECK(input.label_dim > 0, "Input: label_dim must be > 0");
  std::set<std::string> names;
  std::size_t columns = 0;
  for (const LabelInput& label : label_inputs(input)) {
    HCTR_CHECK(!label.name.empty(), "Input: label_name is empty");
    HCTR_CHECK(names.insert(label.name).second, "Input: two labels are called '", label.name, "'");
    HCTR_CHECK(label.dim > 0, "Input: label '", label.name, "' has no columns");
    columns += label.dim;
    HCTR_CHECK(label.name != input.group_name || label.dim == 1, "Input: group_name: label '",
               label.name, "' has ", label.dim, " columns, a group is one number");
  }
  HCTR_CHECK(columns == input.label_dim, "Input: label_dim is ", input.label_dim,
             ", but the labels have ", columns, " columns");
  HCTR_CHECK(input.group_name.empty() || names.contains(input.group_name), "Input: group_name '",
             input.group_name, "' is not the name of a label");
}

}  // namespace

void check_model(const ModelSpec& model) {
  const InputSpec& input = model.input;
  check_labels(input);
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
  HCTR_CHECK(!model.layers.empty(), "the model has no dense layer");
}

void check_parts(const SolverSpec& solver, const std::optional<ReaderSpec>& reader,
                 const ModelSpec& model) {
  HCTR_CHECK(has_loss(model) || solver.metrics.empty(), "solver.metrics: found '",
             solver.metrics.empty() ? "" : solver.metrics.front(),
             "', but the model has no loss, whose scores and labels metrics are made from: give no "
             "metrics, or make a loss the last layer");
  if (!reader) return;
  HCTR_CHECK(trains(model) || has_eval_data(*reader),
             "the model does not train and its reader has no eval_source: give it one, or build "
             "the model without a reader");
  HCTR_CHECK(reader->resident_batches == 0 || solver.repeat_dataset,
             "resident_batches needs repeat_dataset: it serves ", reader->resident_batches,
             " batches again and again");
}

}  // namespace hugectr
