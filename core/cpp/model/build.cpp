// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/build.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/data/resident_reader.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/layers/layer.hpp"
#include "core/cpp/model/label_inputs.hpp"
#include "core/cpp/model/sequence_lengths.hpp"
#include "core/cpp/ops/loss_scale.hpp"

namespace hugectr {
namespace {

/// Number of the sparse input that an embedding calls its bottom.
std::size_t sparse_input_of(const SparseEmbeddingSpec& spec, const std::string& bottom,
                            const InputSpec& input) {
  std::string known;
  for (std::size_t i = 0; i < input.sparse.size(); ++i) {
    if (input.sparse[i].top_name == bottom) return i;
    known += (i ? ", '" : "'") + input.sparse[i].top_name + "'";
  }
  throw InvalidArgument(
      concat("embedding '", spec.name, "': bottom '", bottom,
             "' is not a sparse input of the model; there are: ", known.empty() ? "none" : known));
}

/// The sparse input with the times of samples.
std::size_t times_input(const SparseEmbeddingSpec& spec, const InputSpec& input) {
  const std::string& name = spec.life.ttl_column;
  const auto found = std::ranges::find(input.sparse, name, &SparseInput::top_name);
  HCTR_CHECK(found != input.sparse.end(), "embedding '", spec.name, "': ttl_column '", name,
             "' is not a sparse input of the model: add one of one slot with one key a sample");
  HCTR_CHECK(found->slot_num == 1 && found->nnz_per_slot.front() == 1, "embedding '", spec.name,
             "': ttl_column '", name, "' has ", found->slot_num, " slots of up to ",
             found->nnz_per_slot.front(), " keys: a sample has one time, in one slot of one key");
  return static_cast<std::size_t>(found - input.sparse.begin());
}

/// Which sparse inputs an embedding reads.
TableInput table_input(const SparseEmbeddingSpec& spec, const InputSpec& input) {
  HCTR_CHECK(!spec.bottoms.empty(), "embedding '", spec.name, "' has no bottom");
  TableInput read;
  for (const std::string& bottom : spec.bottoms) {
    const std::size_t number = sparse_input_of(spec, bottom, input);
    read.parts.push_back({number, input.sparse[number].slot_num});
  }
  if (spec.life.timed()) read.times = times_input(spec, input);
  return read;
}

/// `trained`: trains(model), which makes every layer to know.
SparseEmbeddingHashParams embedding_params(const SolverSpec& solver, const ModelSpec& model,
                                           std::size_t index, bool trained) {
  const SparseEmbeddingSpec& spec = model.embeddings[index];
  HCTR_CHECK(spec.embedding_vec_size >= 1 && spec.embedding_vec_size <= 1024, "embedding '",
             spec.name, "': embedding_vec_size ", spec.embedding_vec_size,
             " must lie between 1 and 1024");
  SparseEmbeddingHashParams params;
  params.name = spec.name;
  params.top = spec.top.empty() ? spec.name : spec.top;
  params.type = spec.type;
  params.placement = spec.placement;
  params.placement_device = spec.placement_device;
  params.frequent = spec.frequent;
  params.combiner = spec.combiner;
  params.exchange = spec.exchange;
  params.wire = spec.wire;
  params.table_id = index;
  params.tables_of_model = model.embeddings.size();
  const TableInput read = table_input(spec, model.input);
  params.slot_num = read.slot_num();
  if (spec.combiner == Combiner::Concat) {
    for (const TableInput::Part& part : read.parts) {
      const std::vector<int>& most = model.input.sparse[part.input].nnz_per_slot;
      params.positions.insert(params.positions.end(), most.begin(), most.end());
    }
  }
  params.embedding_vec_size = spec.embedding_vec_size;
  params.vector_type = spec.vector_type;
  params.i64_keys = solver.i64_input_key;
  params.max_vocabulary_size_per_gpu = spec.max_vocabulary_size_per_gpu;
  if (spec.workspace_size_per_gpu_in_mb > 0) {
    const std::size_t bytes = spec.workspace_size_per_gpu_in_mb * 1024 * 1024;
    params.max_vocabulary_size_per_gpu =
        bytes / (size_of(spec.vector_type) * spec.embedding_vec_size);
    HCTR_CHECK(params.max_vocabulary_size_per_gpu > 0, "embedding '", spec.name,
               "': workspace_size_per_gpu_in_mb ", spec.workspace_size_per_gpu_in_mb,
               " does not hold one row of ", spec.embedding_vec_size, " ",
               to_string(spec.vector_type));
  }
  params.slot_size_array = spec.slot_size_array;
  params.direct = spec.direct;
  HCTR_CHECK(spec.slot_size_array.empty() || spec.slot_size_array.size() == params.slot_num,
             "embedding '", spec.name, "': slot_size_array has ", spec.slot_size_array.size(),
             " entries, its inputs have ", params.slot_num, " slots");
  HCTR_CHECK(spec.initial.bound >= 0.0, "embedding '", spec.name, "': the bound of new rows is ",
             spec.initial.bound, ", must not be negative");
  params.initial = spec.initial;
  params.memory = spec.memory;
  params.batch_size_eval = solver.batchsize_eval;
  if (trained) {
    params.opt_params = spec.opt_params.value_or(model.opt_params);
    params.batch_size = solver.batchsize;
    params.micro_batches = solver.micro_batches;
    params.life = spec.life;
  } else {
    params.opt_params.optimizer = Optimizer::SGD;  // the one that keeps nothing of a row
    params.exchange = ExchangeType::Pooled;        // as all evaluation
  }
  return params;
}

/// The type vectors and their gradients travel in: 16 bits when the network takes all of them so.
TensorScalarType output_type(const NetworkGraph& graph, const std::string& table) {
  for (const StepSchedule* schedule : {&graph.train_schedule(), &graph.eval_schedule()}) {
    for (const std::string& name : {table, table + "@grad"}) {
      if (schedule->has(name) && schedule->ref(name).dtype == TensorScalarType::Float32) {
        return TensorScalarType::Float32;
      }
    }
  }
  return graph.options().compute_dtype;
}

}  // namespace

bool has_loss(const ModelSpec& model) {
  return std::ranges::any_of(
      model.layers, [](const DenseLayerSpec& layer) { return make_layer(layer)->is_loss(); });
}

bool trains(const ModelSpec& model) { return model.trains && has_loss(model); }

bool has_eval_data(const ReaderSpec& reader) {
  return reader.eval_memory || !reader.eval_source.empty();
}

bool reads_together(const ReaderSpec& reader, const ModelSpec& model,
                    const ResourceManager& resources) {
  const bool in_memory = (trains(model) ? reader.memory : reader.eval_memory) != nullptr;
  return resources.processes() && !reader.replicated && !in_memory;
}

std::shared_ptr<ResourceManager> make_devices(const SolverSpec& solver,
                                              std::shared_ptr<IProcessGroup> processes) {
  return ResourceManager::create(solver.vvgpu, solver.seed, solver.device, solver.device_layout,
                                 std::move(processes));
}

std::shared_ptr<const NetworkGraph> make_graph(const SolverSpec& solver, const ModelSpec& model,
                                               const ResourceManager& resources, bool with_eval) {
  return make_graph(solver, model, resources.get_global_gpu_count(), resources.seed(), with_eval);
}

std::shared_ptr<const NetworkGraph> make_graph(const SolverSpec& solver, const ModelSpec& model,
                                               std::size_t devices, std::uint64_t seed,
                                               bool with_eval) {
  const bool with_training = trains(model);
  NetworkOptions options;
  options.local_batch = with_training ? solver.batchsize / devices : 0;
  options.local_batch_eval = with_eval ? solver.batchsize_eval / devices : 0;
  options.devices = devices;
  options.seed = seed;
  options.opt_params = model.opt_params;
  options.compute_dtype = solver.compute_dtype;
  options.fp8 = solver.fp8;
  if (with_training) {
    options.dynamic_loss_scale = solver.dynamic_loss_scale;
    options.loss_scale = solver.loss_scale;
    if (solver.dynamic_loss_scale && solver.loss_scale == 0.0) {
      options.loss_scale = kFirstDynamicLossScale;
    }
  }
  options.capture = solver.use_cuda_graph;
  options.micro_batches = solver.micro_batches;
  const std::size_t b = with_training ? options.local_batch : options.local_batch_eval;
  std::vector<NetworkInput> inputs;
  for (const LabelInput& label : label_inputs(model.input)) {
    inputs.push_back({label.name, {b, label.dim}, false, false});
  }
  if (model.input.dense_dim > 0) {
    inputs.push_back({model.input.dense_name, {b, model.input.dense_dim}, false});
  }
  for (std::size_t i = 0; i < model.embeddings.size(); ++i) {
    const auto params = embedding_params(solver, model, i, with_training);
    inputs.push_back(
        {params.top, {b, params.buckets_per_sample(), params.embedding_vec_size}, true});
  }
  for (const SparseInput& sparse : model.input.sparse) {
    if (!reads_lengths(model, sparse)) continue;
    inputs.push_back({lengths_name(sparse), {b, sparse.slot_num}, false, false});
  }
  return std::make_shared<NetworkGraph>(inputs, model.layers, options);
}

std::vector<SparseEmbeddingHashParams> table_params(const SolverSpec& solver,
                                                    const ModelSpec& model,
                                                    const NetworkGraph& graph) {
  const bool trained = trains(model);
  std::vector<SparseEmbeddingHashParams> embeddings;
  for (std::size_t i = 0; i < model.embeddings.size(); ++i) {
    embeddings.push_back(embedding_params(solver, model, i, trained));
    embeddings.back().output_type = output_type(graph, embeddings.back().top);
  }
  return embeddings;
}

std::vector<TableInput> table_inputs(const ModelSpec& model) {
  std::vector<TableInput> inputs;
  for (const SparseEmbeddingSpec& embedding : model.embeddings) {
    inputs.push_back(table_input(embedding, model.input));
  }
  return inputs;
}

std::unique_ptr<ModelTables> make_tables(const SolverSpec& solver, const ModelSpec& model,
                                         const NetworkGraph& graph,
                                         const std::shared_ptr<ResourceManager>& resources) {
  return std::make_unique<ModelTables>(table_params(solver, model, graph), table_inputs(model),
                                       resources);
}

namespace {

void check_float8(DeviceId device) {
  const std::string why = DeviceBackend::get(device.type).why_no_float8(device.index);
  if (!why.empty()) throw DeviceError(why);
}

}  // namespace

std::vector<std::unique_ptr<Network>> make_networks(
    const SolverSpec& solver, const std::shared_ptr<const NetworkGraph>& graph,
    ResourceManager& resources) {
  std::vector<std::unique_ptr<Network>> networks(resources.get_local_gpu_count());
  resources.for_each_device([&](std::size_t id) {
    GPUResource& gpu = resources.get_local_gpu(id);
    if (solver.fp8) check_float8(gpu.device());
    gpu.set_tf32(solver.tf32);
    gpu.set_algorithm_search(solver.use_algorithm_search);
    networks[id] = std::make_unique<Network>(graph, gpu);
  });
  // After the devices have found room for them: a network too large for one is refused at once.
  const std::vector<float> initial = graph->initial_parameters();
  resources.for_each_device([&](std::size_t id) { networks[id]->set_dense_weights(initial); });
  return networks;
}

InputLayout input_layout(const SolverSpec& solver, const InputSpec& input) {
  InputLayout layout;
  layout.label_dim = input.label_dim;
  layout.dense_dim = input.dense_dim;
  layout.i64_keys = solver.i64_input_key;
  layout.sparse = input.sparse;
  return layout;
}

InputLayout input_layout(const SolverSpec& solver, const ModelSpec& model) {
  InputLayout layout = input_layout(solver, model.input);
  for (const SparseEmbeddingSpec& embedding : model.embeddings) {
    if (embedding.combiner != Combiner::Concat) continue;
    for (const TableInput::Part& part : table_input(embedding, model.input).parts) {
      layout.sparse[part.input].in_positions = true;
    }
  }
  return layout;
}

std::unique_ptr<IDataReader> make_train_reader(const SolverSpec& solver, const ReaderSpec& reader,
                                               const InputLayout& layout,
                                               const std::shared_ptr<ResourceManager>& resources) {
  const auto make = [solver, reader, layout, resources] {
    return make_data_reader(
        make_source(reader, layout, solver.repeat_dataset, true, resources->processes()), layout,
        solver.batchsize, reader.num_workers, resources, reader.max_bad_share);
  };
  return reader.resident_batches > 0
             ? make_resident_reader(make, reader.resident_batches, resources)
             : make();
}

std::unique_ptr<IDataReader> make_eval_reader(const SolverSpec& solver, const ReaderSpec& reader,
                                              const InputLayout& layout,
                                              const std::shared_ptr<ResourceManager>& resources) {
  return make_data_reader(
      make_source(reader, layout, solver.repeat_dataset, false, resources->processes()), layout,
      solver.batchsize_eval, reader.num_workers, resources, reader.max_bad_share);
}

}  // namespace hugectr
