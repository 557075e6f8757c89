// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session_state.hpp"

#include <numeric>

#include "core/cpp/data/resident_reader.hpp"
#include "core/cpp/model/model_check.hpp"
#include "core/cpp/ops/cast.hpp"
#include "core/cpp/ops/loss_scale.hpp"

namespace hugectr {
namespace {

std::shared_ptr<const NetworkGraph> make_graph(const SolverSpec& solver, const ModelSpec& model,
                                               const ResourceManager& resources, bool with_eval) {
  const std::size_t devices = resources.get_global_gpu_count();
  const std::size_t b = solver.batchsize / devices;
  std::vector<NetworkInput> inputs;
  inputs.push_back({model.input.label_name, {b, model.input.label_dim}, false, false});
  if (model.input.dense_dim > 0) {
    inputs.push_back({model.input.dense_name, {b, model.input.dense_dim}, false});
  }
  for (std::size_t i = 0; i < model.embeddings.size(); ++i) {
    const auto params = embedding_params(solver, model, i);
    inputs.push_back({params.name, {b, params.slot_num, params.embedding_vec_size}, true});
  }
  NetworkOptions options;
  options.local_batch = b;
  options.local_batch_eval = with_eval ? solver.batchsize_eval / devices : 0;
  options.devices = devices;
  options.seed = resources.seed();
  options.opt_params = model.opt_params;
  options.compute_dtype = solver.compute_dtype;
  options.dynamic_loss_scale = solver.dynamic_loss_scale;
  options.loss_scale = solver.loss_scale;
  if (solver.dynamic_loss_scale && solver.loss_scale == 0.0) {
    options.loss_scale = kFirstDynamicLossScale;
  }
  options.capture = solver.use_cuda_graph;
  return std::make_shared<NetworkGraph>(inputs, model.layers, options);
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

Session::Impl::Impl(const SolverSpec& solver_spec, const ModelSpec& model_spec)
    : solver(solver_spec),
      model(model_spec),
      scheduler(solver_spec.lr),
      lr(static_cast<float>(solver_spec.lr.base_lr)) {}

Session::Impl::Impl(const SolverSpec& solver_spec, const ReaderSpec& reader,
                    const ModelSpec& model_spec, std::shared_ptr<IProcessGroup> processes)
    : Impl(solver_spec, model_spec) {
  build(reader, std::move(processes));
}

void Session::Impl::build(const ReaderSpec& reader, std::shared_ptr<IProcessGroup> processes) {
  check_solver(solver);
  check_model(model);
  resources = ResourceManager::create(solver.vvgpu, solver.seed, solver.device,
                                      solver.device_layout, std::move(processes));
  metrics = std::make_unique<EvalMetrics>(solver.metrics, devices());
  const bool with_eval = reader.eval_memory || !reader.eval_source.empty();
  graph = make_graph(solver, model, *resources, with_eval);
  std::vector<SparseEmbeddingHashParams> embeddings;
  std::vector<std::size_t> sparse_inputs;
  for (std::size_t i = 0; i < model.embeddings.size(); ++i) {
    sparse_inputs.push_back(sparse_input_of(model.embeddings[i], model.input));
    embeddings.push_back(embedding_params(solver, model, i));
    embeddings.back().output_type = output_type(*graph, embeddings.back().name);
  }
  tables = std::make_unique<ModelTables>(embeddings, std::move(sparse_inputs), resources);
  networks.resize(devices());
  resources->for_each_device([&](std::size_t id) {
    GPUResource& gpu = resources->get_local_gpu(id);
    gpu.set_tf32(solver.tf32);
    gpu.set_algorithm_search(solver.use_algorithm_search);
    networks[id] = std::make_unique<Network>(graph, gpu);
  });
  // After the devices have found room for them: a network too large for one is refused at once.
  const std::vector<float> initial = graph->initial_parameters();
  resources->for_each_device([&](std::size_t id) { networks[id]->set_dense_weights(initial); });
  reads_together = resources->processes() && !reader.replicated && !reader.memory;
  InputLayout layout = input_layout(solver, model.input);
  layout.labels = graph->labels();
  const auto make_train_reader = [this, reader, layout] {
    return make_data_reader(
        make_source(reader, layout, solver.repeat_dataset, true, resources->processes()), layout,
        solver.batchsize, reader.num_workers, resources, reader.max_bad_share);
  };
  HCTR_CHECK(reader.resident_batches == 0 || solver.repeat_dataset,
             "resident_batches needs repeat_dataset: it serves ", reader.resident_batches,
             " batches again and again");
  train_reader = reader.resident_batches > 0
                     ? make_resident_reader(make_train_reader, reader.resident_batches, resources)
                     : make_train_reader();
  if (with_eval) {
    eval_reader = make_data_reader(
        make_source(reader, layout, solver.repeat_dataset, false, resources->processes()), layout,
        solver.batchsize_eval, reader.num_workers, resources, reader.max_bad_share);
  }
  loss_watch = std::make_unique<LossWatch>(
      *resources, networks.front()->scales_loss() ? LossWatch::kPatienceWithLossScaling : 1);
  planner =
      std::make_unique<PlanAhead>(*train_reader, *tables, *resources, solver.drop_incomplete_batch);
}

Session::Impl::~Impl() {
  // Whatever is queued still uses members; an error in it has nobody left to hear it.
  try {
    planner.reset();
    if (resources) resources->synchronize();
  } catch (const std::exception&) {
  }
}

void Session::Impl::write_inputs(std::size_t local_id, const DeviceBatch& batch, bool train) {
  Network& network = *networks[local_id];
  const OpContext context = resources->get_local_gpu(local_id).compute_context();
  const auto write = [&](const std::string& name, const TensorRef& from) {
    if (network.has_tensor(name, train)) {
      run(context, Cast{.x = from, .y = network.tensor(name, train)});
    }
  };
  write(model.input.label_name, batch.label);
  if (model.input.dense_dim > 0) write(model.input.dense_name, batch.dense);
  const TensorRef weight = network.sample_weight(train);
  context.stream->copy(weight.data, batch.sample_weight.data, weight.size_in_bytes());
}

StepScalars Session::Impl::scalars_for(std::size_t local_id, const Batch& batch, bool train) const {
  const std::size_t global_id = resources->get_local_gpu(local_id).get_global_id();
  const std::size_t global_batch = train ? solver.batchsize : solver.batchsize_eval;
  StepScalars scalars;
  scalars.lr = lr;
  scalars.inv_weight_sum = batch.weight_sum > 0 ? static_cast<float>(1.0 / batch.weight_sum) : 0.0f;
  scalars.step = train ? step + 1 : step;
  scalars.first_sample =
      static_cast<std::int64_t>(global_id * (global_batch / resources->get_global_gpu_count()));
  return scalars;
}

TensorRef Session::Impl::vectors(std::size_t local_id, std::size_t table, bool train) const {
  return networks[local_id]->tensor((*tables)[table].params().name, train);
}

TensorRef Session::Impl::gradient(std::size_t local_id, std::size_t table) const {
  const Network& network = *networks[local_id];
  const std::string name = (*tables)[table].params().name + "@grad";
  return network.has_tensor(name, true) ? network.tensor(name, true) : TensorRef{};
}

void Session::Impl::train_on(std::size_t local_id, const PlannedBatch& planned) {
  DeviceBatch& batch = planned.batch->devices[local_id];
  Network& network = *networks[local_id];
  Stream& stream = resources->get_local_gpu(local_id).compute_stream();
  const bool timed = local_id == 0;

  if (timed) clock.begin(stream);
  stream.wait(*batch.ready);
  network.set_scalars(scalars_for(local_id, *planned.batch, true));
  write_inputs(local_id, batch, true);
  if (timed) clock.end_stage(stream);
  tables->forward(local_id, planned.slot,
                  [&](std::size_t table) { return vectors(local_id, table, true); });
  if (timed) clock.end_stage(stream);
  const bool beside = network.updates_inputs_beside();
  const auto update_tables = [&] {
    tables->backward_and_update(
        local_id, planned.slot, [&](std::size_t table) { return gradient(local_id, table); },
        {network.lr(), network.step(), network.unscale()}, beside);
  };
  if (beside) {
    network.train(dense_trainable, update_tables);
  } else {
    network.train(dense_trainable);
  }
  if (timed) clock.end_stage(stream);
  network.exchange_wgrad();
  if (dense_trainable) network.update_params();
  if (timed) clock.end_stage(stream);
  if (!beside) update_tables();
  // Here nothing is left on the exchange stream that a collective could meet.
  loss_watch->note(local_id, step + 1, network.loss(true));
  stream.record(*batch.consumed);
  if (timed) clock.end_stage(stream);
}

void Session::Impl::plan_eval_on(std::size_t local_id, Batch& batch) {
  DeviceBatch& part = batch.devices[local_id];
  resources->get_local_gpu(local_id).plan_stream().wait(*part.ready);
  tables->plan(local_id, part.sparse, PlanSlot::Eval, false);
}

void Session::Impl::eval_on(std::size_t local_id, Batch& batch) {
  DeviceBatch& part = batch.devices[local_id];
  Network& network = *networks[local_id];
  Stream& stream = resources->get_local_gpu(local_id).compute_stream();
  stream.wait(*part.ready);
  network.set_scalars(scalars_for(local_id, batch, false));
  write_inputs(local_id, part, false);
  tables->forward(local_id, PlanSlot::Eval,
                  [&](std::size_t table) { return vectors(local_id, table, false); });
  network.eval();
  metrics->add(resources->get_local_gpu(local_id),
               {.scores = network.tensor(graph->score_name(), false),
                .labels = network.tensor(model.input.label_name, false),
                .weights = network.sample_weight(false)});
  stream.record(*part.consumed);
}

void Session::Impl::tell_others(const std::string& error, bool of_communication) noexcept {
  const auto& processes = resources->processes();
  if (!processes) return;
  try {
    // What came from another process is known there.
    processes->abort(of_communication ? error : concat("process ", processes->rank(), ": ", error));
  } catch (...) {  // no memory for the text: this one needs none
    processes->abort("out of memory");
  }
}

double Session::Impl::read_loss(bool train) {
  std::vector<float> shares(devices());
  for (std::size_t id = 0; id < devices(); ++id) {
    Stream& stream = resources->get_local_gpu(id).compute_stream();
    stream.copy(&shares[id], networks[id]->loss(train).data, sizeof(float));
  }
  for (std::size_t id = 0; id < devices(); ++id) {
    resources->get_local_gpu(id).compute_stream().synchronize();
  }
  // In the order of the devices, so that their number of processes does not change the sum.
  std::vector<float> all(resources->get_global_gpu_count());
  for (std::size_t id = 0; id < devices(); ++id) {
    all[resources->get_gpu_global_id_from_local_id(id)] = shares[id];
  }
  if (const auto& processes = resources->processes()) {
    std::vector<float> of_all(all.size() * processes->size());
    processes->all_gather(all.data(), all.size() * sizeof(float), of_all.data());
    for (std::size_t id = 0; id < all.size(); ++id) {
      all[id] = of_all[resources->get_process_id_from_gpu_global_id(id) * all.size() + id];
    }
  }
  return std::accumulate(all.begin(), all.end(), 0.0);
}

void Session::Impl::check_loss() {
  loss_watch->look_at_all(step);
  if (!networks.front()->weights_are_finite()) {
    throw NonFiniteLoss(concat(
        "Loss cannot converge: step ", step,
        " left dense weights that are not finite numbers. They are not rolled back. Go on from a "
        "checkpoint (Model.resume) with a smaller learning rate or a longer warm-up"));
  }
}

void Session::Impl::settle() {
  planner->undo();
  resources->synchronize();
}

}  // namespace hugectr
