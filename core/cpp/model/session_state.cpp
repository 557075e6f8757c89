// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session_state.hpp"

#include <algorithm>

#include "core/cpp/model/build.hpp"
#include "core/cpp/model/label_inputs.hpp"
#include "core/cpp/model/model_check.hpp"
#include "core/cpp/model/sequence_lengths.hpp"
#include "core/cpp/ops/cast.hpp"

namespace hugectr {

SessionState::SessionState(const SolverSpec& solver_spec, const ModelSpec& model_spec)
    : solver(solver_spec),
      model(model_spec),
      scheduler(solver_spec.lr),
      lr(static_cast<float>(solver_spec.lr.base_lr)) {}

SessionState::SessionState(const SolverSpec& solver_spec, const std::optional<ReaderSpec>& reader,
                           const ModelSpec& model_spec, std::shared_ptr<IProcessGroup> processes)
    : SessionState(solver_spec, model_spec) {
  build(reader, std::move(processes));
}

void SessionState::build(const std::optional<ReaderSpec>& reader,
                         std::shared_ptr<IProcessGroup> processes) {
  check_solver(solver);
  check_model(model);
  check_parts(solver, reader, model);
  resources = make_devices(solver, std::move(processes));
  // Without a reader batches come from elsewhere, to evaluate too.
  graph = make_graph(solver, model, *resources, !reader || has_eval_data(*reader));
  if (graph->has_eval()) {
    tasks = eval_tasks(*graph);
    metrics =
        std::make_unique<EvalMetrics>(solver.metrics, devices(), eval_subject(*graph, model.input));
  } else {
    metrics =
        std::make_unique<EvalMetrics>(solver.metrics, devices(), EvalSubject{.has_groups = true});
  }
  tables = make_tables(solver, model, *graph, resources);
  networks = make_networks(solver, graph, *resources);
  find_vectors();
  has_reader = reader.has_value();
  if (reader) {
    reads_together = hugectr::reads_together(*reader, model, *resources);
    InputLayout layout = input_layout(solver, model);
    layout.labels = column_ranges(model.input, *graph);
    if (graph->trains()) train_reader = make_train_reader(solver, *reader, layout, resources);
    if (has_eval_data(*reader)) eval_reader = make_eval_reader(solver, *reader, layout, resources);
  }
  if (graph->trains()) {
    loss_watch = std::make_unique<LossWatch>(
        *resources, graph->scales_loss() ? LossWatch::kPatienceWithLossScaling : 1);
  }
  if (train_reader) {
    planner = std::make_unique<PlanAhead>(*train_reader, *tables, *resources,
                                          solver.drop_incomplete_batch);
  }
}

SessionState::~SessionState() {
  // Whatever is queued still uses members; an error in it has nobody left to hear it.
  try {
    planner.reset();
    if (resources) {
      resources->synchronize();
      resources->rest();
    }
  } catch (const std::exception&) {
  }
}

void SessionState::write_inputs(std::size_t local_id, const DeviceBatch& batch, bool train) {
  Network& network = *networks[local_id];
  const OpContext context = resources->get_local_gpu(local_id).compute_context();
  const auto write = [&](const std::string& name, const TensorRef& from) {
    if (network.has_tensor(name, train)) {
      run(context, Cast{.x = from, .y = network.tensor(name, train)});
    }
  };
  write_labels(context, model.input, batch.label, [&](const std::string& name) {
    return network.has_tensor(name, train) ? network.tensor(name, train) : TensorRef{};
  });
  if (model.input.dense_dim > 0) write(model.input.dense_name, batch.dense);
  write_lengths(context, model.input, batch.sparse, first_sample(local_id, train),
                [&](const std::string& name) {
                  return network.has_tensor(name, train) ? network.tensor(name, train)
                                                         : TensorRef{};
                });
  const TensorRef weight = network.sample_weight(train);
  context.stream->copy(weight.data, batch.sample_weight.data, weight.size_in_bytes());
}

StepScalars SessionState::scalars_for(std::size_t local_id, const Batch& batch, bool train) const {
  StepScalars scalars;
  scalars.lr = lr;
  scalars.inv_weight_sum = batch.weight_sum > 0 ? static_cast<float>(1.0 / batch.weight_sum) : 0.0f;
  scalars.step = train ? step + 1 : step;
  scalars.dense_step = dense_steps.own(scalars.step);
  const std::size_t parts = train ? solver.micro_batches : 1;
  const std::size_t own = solver.batchsize / resources->get_global_gpu_count() / parts;
  for (std::size_t m = 0; m < parts; ++m) {
    scalars.first_samples[m] = static_cast<std::int64_t>(first_sample(local_id, train) + m * own);
  }
  return scalars;
}

std::size_t SessionState::first_sample(std::size_t local_id, bool train) const {
  const std::size_t global_batch = train ? solver.batchsize : solver.batchsize_eval;
  return resources->get_local_gpu(local_id).get_global_id() *
         (global_batch / resources->get_global_gpu_count());
}

void SessionState::find_vectors() {
  for (const auto& network : networks) {
    const auto found = [&](const std::string& name, bool train) {
      return network->has_tensor(name, train) ? network->tensor(name, train) : TensorRef{};
    };
    TableVectors& own = vectors.emplace_back();
    for (std::size_t t = 0; t < tables->size(); ++t) {
      const std::string& top = (*tables)[t].params().top;
      own.train.push_back(found(top, true));
      own.gradients.push_back(found(top + "@grad", true));
      own.eval.push_back(found(top, false));
    }
  }
}

void SessionState::train_on(std::size_t local_id, const PlannedBatch& planned) {
  DeviceBatch& batch = planned.batch->devices[local_id];
  Network& network = *networks[local_id];
  Stream& stream = resources->get_local_gpu(local_id).compute_stream();
  const bool timed = local_id == 0;

  // Who times ops alone gets them one after the other; several devices have theirs where they are.
  const bool one_by_one = plan_when_done && resources->get_global_gpu_count() == 1;
  const bool brings_beside = network.brings_inputs_beside() && !one_by_one;
  const std::size_t parts = solver.micro_batches;
  const auto bring_vectors = [&](std::size_t m) {
    tables->forward(local_id, planned.slot,
                    [&](std::size_t table) { return vectors[local_id].train[table]; },
                    network.step(), brings_beside, {m, parts});
  };

  if (timed) clock.begin(stream);
  network.set_scalars(scalars_for(local_id, *planned.batch, true));
  if (brings_beside) network.bring_first_inputs(bring_vectors);
  stream.wait(*batch.ready);
  write_inputs(local_id, batch, true);
  if (timed) clock.end_stage(stream);
  for (std::size_t m = 0; !brings_beside && m < parts; ++m) bring_vectors(m);
  if (timed) clock.end_stage(stream);
  const bool beside = network.updates_inputs_beside() && !one_by_one;
  const auto gradient_of = [&](std::size_t table) { return vectors[local_id].gradients[table]; };
  const auto update_tables = [&] {
    tables->backward_and_update(local_id, planned.slot, gradient_of,
                                {network.lr(), network.step(), network.unscale(), step + 1},
                                beside);
  };
  // Where gradients travel, those of dense weights go before the tables' update: their own update
  // runs beside it.
  const bool updates_last = beside && resources->get_global_gpu_count() > 1;
  const auto take_gradients = [&](std::size_t m) {
    if (parts > 1 || updates_last) {
      tables->send_gradients(local_id, planned.slot, gradient_of, network.step(), beside,
                             {m, parts});
    }
    if (m + 1 == parts && !updates_last) update_tables();
  };
  using Work = Network::MicroBatchWork;
  network.train(dense_steps.is_trainable(), beside ? Work(take_gradients) : Work{},
                brings_beside ? Work(bring_vectors) : Work{});
  if (updates_last) network.update_inputs(update_tables);
  if (timed) clock.end_stage(stream);
  network.exchange_wgrad();
  if (network.clips_norm()) {
    tables->bring_gradients(local_id, planned.slot, gradient_of, network.clear_row_squares(),
                            network.step());
    network.clip_norm(dense_steps.is_trainable());
  }
  if (dense_steps.is_trainable()) network.update_params();
  if (timed) clock.end_stage(stream);
  if (!beside) update_tables();
  network.wait_for_inputs();
  // Here nothing is left on the exchange stream that a collective could meet.
  loss_watch->note(local_id, step + 1, network.loss(true));
  stream.record(*batch.consumed);
  if (timed) clock.end_stage(stream);
}

void SessionState::plan_eval_on(std::size_t local_id, Batch& batch) {
  DeviceBatch& part = batch.devices[local_id];
  resources->get_local_gpu(local_id).plan_stream().wait(*part.ready);
  tables->plan(local_id, part.sparse, PlanSlot::Eval, false);
}

void SessionState::eval_on(std::size_t local_id, Batch& batch) {
  DeviceBatch& part = batch.devices[local_id];
  Network& network = *networks[local_id];
  Stream& stream = resources->get_local_gpu(local_id).compute_stream();
  stream.wait(*part.ready);
  network.set_scalars(scalars_for(local_id, batch, false));
  write_inputs(local_id, part, false);
  tables->forward(local_id, PlanSlot::Eval,
                  [&](std::size_t table) { return vectors[local_id].eval[table]; });
  network.eval();
  add_tasks(
      *metrics, resources->get_local_gpu(local_id), tasks, model.input,
      [&](const std::string& name) { return network.tensor(name, false); },
      network.sample_weight(false));
  stream.record(*part.consumed);
}

void SessionState::tell_others(const std::string& error, bool of_communication) noexcept {
  const auto& processes = resources->processes();
  if (!processes) return;
  // What came from another process is known there.
  of_communication ? processes->abort(error) : processes->abort_from_here(error);
}

std::vector<double> SessionState::read_losses(bool train) {
  std::vector<std::string> names;  // of losses that are added up
  for (const LossOutputs& loss : graph->losses()) {
    if (!loss.loss.empty()) names.push_back(loss.loss);
  }
  const std::size_t count = 1 + names.size();
  std::vector<float> shares(devices() * count);
  for (std::size_t id = 0; id < devices(); ++id) {
    Stream& stream = resources->get_local_gpu(id).compute_stream();
    float* const of_device = &shares[id * count];
    stream.copy(of_device, networks[id]->loss(train).data, sizeof(float));
    for (std::size_t t = 0; t < names.size(); ++t) {
      const TensorRef loss = networks[id]->tensor(names[t], train);
      stream.copy(of_device + 1 + t, loss.data, sizeof(float));
    }
  }
  for (std::size_t id = 0; id < devices(); ++id) {
    resources->get_local_gpu(id).compute_stream().synchronize();
  }
  // In the order of the devices, so that their number of processes does not change the sum.
  std::vector<float> all(resources->get_global_gpu_count() * count);
  for (std::size_t id = 0; id < devices(); ++id) {
    std::copy_n(shares.begin() + static_cast<std::ptrdiff_t>(id * count), count,
                &all[resources->get_gpu_global_id_from_local_id(id) * count]);
  }
  if (const auto& processes = resources->processes()) {
    std::vector<float> of_all(all.size() * processes->size());
    processes->all_gather(all.data(), all.size() * sizeof(float), of_all.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t process = resources->get_process_id_from_gpu_global_id(i / count);
      all[i] = of_all[process * all.size() + i];
    }
  }
  std::vector<double> sums(count);
  for (std::size_t i = 0; i < all.size(); ++i) sums[i % count] += static_cast<double>(all[i]);
  return sums;
}

void SessionState::check_loss() {
  if (loss_watch) loss_watch->look_at_all(step);
  if (!networks.front()->weights_are_finite()) {
    throw NonFiniteLoss(concat(
        "Loss cannot converge: step ", step,
        " left dense weights that are not finite numbers. They are not rolled back. Go on from a "
        "checkpoint (Model.resume) with a smaller learning rate or a longer warm-up"));
  }
}

void SessionState::settle() {
  if (planner) planner->undo();
  resources->synchronize();
}

void SessionState::stop_reading() {
  wait_for_plan();
  if (train_reader) train_reader->close();
  if (eval_reader) eval_reader->close();
}

TensorView SessionState::view(std::size_t local_id, const TensorRef& ref) {
  return {ref, shared_from_this(), &resources->get_local_gpu(local_id).compute_stream()};
}

void SessionState::check_trains(const char* call) const {
  HCTR_CHECK(model.trains, call,
             ": the model was built not to train: build it with trains = true, and load the "
             "weights and rows there");
  HCTR_CHECK(has_loss(model), call,
             ": the model has no loss to train by: make one its last layer, such as "
             "BinaryCrossEntropyLoss");
}

void SessionState::check_has_reader(const char* call) const {
  HCTR_CHECK(has_reader, call,
             ": the model was built without a reader: build it with one, which says where the "
             "samples come from");
}

}  // namespace hugectr
