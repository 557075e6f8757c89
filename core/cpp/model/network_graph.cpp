// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/network_graph.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/base/random.hpp"
#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/layers/auto_slice.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/losses/loss_weights.hpp"
#include "core/cpp/model/label_inputs.hpp"
#include "core/cpp/ops/concat.hpp"
#include "core/cpp/ops/dense_update.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/loss_scale.hpp"
#include "core/cpp/ops/regularizer.hpp"
#include "core/cpp/schedule/bucket_wgrad.hpp"
#include "core/cpp/schedule/passes.hpp"
#include "core/cpp/schedule/split_samples.hpp"

namespace hugectr {
namespace {

namespace names = schedule_names;

/// External tensors every schedule has.
void add_step_tensors(StepSchedule& schedule, std::size_t local_batch) {
  constexpr TensorRole kExternal = TensorRole::External;
  schedule.add_tensor(names::kSampleWeight, {local_batch}, kExternal);
  schedule.add_tensor(names::kInvWeightSum, {1}, kExternal);
  schedule.add_tensor(names::kStep, {1}, kExternal, TensorScalarType::Int64);
  schedule.add_tensor(names::kDenseStep, {1}, kExternal, TensorScalarType::Int64);
  schedule.add_tensor(names::kFirstSample, {1}, kExternal, TensorScalarType::Int64);
  schedule.add_tensor(names::kLearningRate, {1}, kExternal);
  schedule.add_tensor(names::kLoss, {1}, kExternal);
}

/// A gradient that is read but written by no record belongs to a top nobody uses. It keeps its own
/// memory, so that it stays zero, or what a test wrote there before the records ran.
void keep_unwritten_gradients(StepSchedule& schedule) {
  std::set<int> written, read;
  for (const OpRecord& record : std::as_const(schedule).records()) {
    record.op.for_each_tensor([&](const char*, Access access, const TensorRef& ref) {
      (access == Access::In ? read : written).insert(ref.id);
    });
  }
  for (ScheduleTensor& tensor : schedule.tensors()) {
    const int id = schedule.id(tensor.name);
    if (tensor.role == TensorRole::Gradient && read.count(id) && !written.count(id)) {
      tensor.kept = true;
    }
  }
}

/// One loss of weight 1 is the loss of the network.
bool sums_losses(const std::vector<std::unique_ptr<Layer>>& layers) {
  std::size_t count = 0;
  bool weighted = false;
  for (const auto& layer : layers) {
    if (!layer->is_loss()) continue;
    ++count;
    weighted |= loss_weight(layer->spec()) != 1.0;
  }
  return count > 1 || weighted;
}

}  // namespace

NetworkGraph::NetworkGraph(const std::vector<NetworkInput>& inputs,
                           const std::vector<DenseLayerSpec>& layers, const NetworkOptions& options)
    : options_(options), inputs_(inputs) {
  HCTR_CHECK(options.loss_scale == 0.0 || options.compute_dtype == TensorScalarType::Float16,
             "loss scaling is for float16, the network computes in ",
             to_string(options.compute_dtype));
  HCTR_CHECK(!options.fp8 || options.compute_dtype == TensorScalarType::BFloat16,
             "fp8 products are for bfloat16, the network computes in ",
             to_string(options.compute_dtype));
  std::set<std::string> shared;  // labels are read by losses only: no gradient to add up
  for (const NetworkInput& input : inputs_) {
    if (!input.needs_gradient) shared.insert(input.name);
  }
  layers_ = insert_slices(layers, shared);
  HCTR_CHECK(trains() || has_eval(), "a network without a batch to train or to evaluate");
  if (trains()) build(train_, true);
  if (has_eval()) build(eval_, false);
}

void NetworkGraph::build(StepSchedule& schedule, bool train) {
  const std::size_t whole = train ? options_.local_batch : options_.local_batch_eval;
  const std::size_t batch = train ? whole / options_.micro_batches : whole;
  add_step_tensors(schedule, batch);
  if (train && scales_loss()) {
    schedule.add_tensor(names::kLossScale, {1}, TensorRole::External);
  }
  std::vector<std::unique_ptr<Layer>> built;
  for (const DenseLayerSpec& spec : layers_) built.push_back(make_layer(spec));
  LayerBuilder builder(schedule, {.train = train,
                                  .local_batch = batch,
                                  .global_batch = whole * options_.devices,
                                  .devices = options_.devices,
                                  .seed = options_.seed,
                                  .compute_dtype = options_.compute_dtype,
                                  .sums_losses = sums_losses(built)});
  for (const NetworkInput& input : inputs_) {
    Shape shape = input.shape;
    shape[0] = batch;
    const TensorRef ref = schedule.add_tensor(input.name, shape);
    if (input.may_be_16_bits) schedule.let_be_16_bits(ref);
    schedule.keep(input.name);
    if (!input.needs_gradient) builder.mark_no_gradient(input.name);
  }
  losses_.clear();
  for (const auto& layer : built) {
    layer->forward(builder);
    if (train && options_.micro_batches > 1) check_in_micro_batches(*layer, builder);
    if (const LossOutputs* outputs = layer->loss_outputs()) losses_.push_back(*outputs);
  }
  if (!train) samples_meet_ = builder.samples_meet();
  if (train || !trains()) describe(schedule, builder, built);
  schedule.add_tensor(names::kWeights, {layout_.flat_size()}, TensorRole::External);
  if (train) {
    append_training(schedule, builder, built);
  } else {
    append_evaluation(schedule);
  }
  schedule.order_by_phase();
  if (options_.in_16_bits()) cast_to_16_bits(schedule, options_.compute_dtype);
  optimize(schedule);
  if (train && options_.fp8) products_in_fp8(schedule);
  if (train && options_.micro_batches > 1) into_micro_batches(schedule);
  if (train && options_.devices > 1 && layout_.count() > 0) exchange_while_backward(schedule);
}

void NetworkGraph::describe(const StepSchedule& schedule, const LayerBuilder& builder,
                            const std::vector<std::unique_ptr<Layer>>& built) {
  layers_.clear();  // forward() has filled in what was not known before shapes were
  for (const auto& layer : built) layers_.push_back(layer->spec());
  label_ranges_ = hugectr::label_ranges(inputs_, built);
  parameters_ = builder.parameters();
  non_trainables_ = builder.non_trainables();
  for (const Parameter& parameter : parameters_) layout_.add(num_elements(parameter.shape));
  for (const ScheduleTensor& tensor : schedule.tensors()) {
    Shape& shape = top_shapes_[tensor.name] = tensor.shape;
    const bool in_parts = trains() && tensor.role != TensorRole::External && !shape.empty();
    if (in_parts) shape[0] *= options_.micro_batches;
  }
}

void NetworkGraph::check_in_micro_batches(const Layer& layer, const LayerBuilder& builder) const {
  const std::string found = concat("micro_batches ", options_.micro_batches, ": ",
                                   layer.spec().type, " layer \"", layer.name(), "\" ");
  HCTR_CHECK(!builder.samples_meet(), found,
             "needs all samples of a batch at once (statistics, or rows of several samples): leave "
             "micro_batches out");
  const LossOutputs* const loss = layer.loss_outputs();
  HCTR_CHECK(loss == nullptr || loss->weights.empty(), found,
             "divides by the sum of its weights over the batch: leave micro_batches out");
}

void NetworkGraph::into_micro_batches(StepSchedule& schedule) const {
  SampleTensors known{{names::kSampleWeight, names::kFirstSample}, {}};
  for (const LossOutputs& loss : losses_) {
    known.sums.insert(loss.loss.empty() ? names::kLoss : loss.loss);
  }
  split_samples(schedule, options_.micro_batches, known);
  if (fusion_enabled()) overwrite_gradients(schedule);
}

void NetworkGraph::append_training(StepSchedule& schedule, LayerBuilder& builder,
                                   const std::vector<std::unique_ptr<Layer>>& built) {
  schedule.add_tensor(names::kWgrad, {layout_.flat_size()}, TensorRole::External);
  if (has_loss()) append_total_loss(schedule);
  append_regularizers(schedule, options_.local_batch);
  for (auto layer = built.rbegin(); layer != built.rend(); ++layer) (*layer)->backward(builder);
  if (scales_loss()) append_loss_scaling(schedule);
  append_update(schedule);
  for (const NetworkInput& input : inputs_) {
    if (schedule.has(input.name + "@grad")) schedule.keep(input.name + "@grad");
  }
  keep_unwritten_gradients(schedule);
}

void NetworkGraph::append_evaluation(StepSchedule& schedule) {
  if (!has_loss()) return;
  append_predictions(schedule);
  append_total_loss(schedule);
  append_regularizers(schedule, options_.local_batch_eval);
}

void NetworkGraph::append_predictions(StepSchedule& schedule) {
  ConcatFwd side_by_side;
  std::size_t columns = 0;
  for (const LossOutputs& loss : losses_) {
    for (const std::string& name :
         {loss.logits, loss.labels, loss.predictions, loss.scores, loss.weights}) {
      if (!name.empty()) schedule.keep(name);
    }
    side_by_side.xs.push_back(schedule.ref(loss.logits));
    columns += loss.columns;
  }
  logits_ = losses_.front().logits;
  if (losses_.size() == 1) return;
  logits_ = names::kLogits;
  side_by_side.y = schedule.add_tensor(logits_, {options_.local_batch_eval, columns});
  schedule.let_be_16_bits(side_by_side.y);
  schedule.keep(logits_);
  schedule.add(Phase::Forward, side_by_side, "losses");
}

void NetworkGraph::append_total_loss(StepSchedule& schedule) {
  TotalLoss sum{.losses = {}, .total = schedule.ref(names::kLoss), .weights = {}};
  for (const LossOutputs& loss : losses_) {
    if (loss.loss.empty()) return;  // it is the total
    schedule.keep(loss.loss);
    sum.losses.push_back(schedule.ref(loss.loss));
    sum.weights.push_back(loss.weight);
  }
  schedule.add_once(Phase::Loss, sum, "losses");
}

void NetworkGraph::exchange_while_backward(StepSchedule& schedule) const {
  std::vector<GradientPlace> places;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    places.push_back({parameters_[i].name + "@grad", layout_.offsets()[i]});
  }
  const bool tables_learn =
      std::any_of(inputs_.begin(), inputs_.end(), [&](const NetworkInput& input) {
        return input.needs_gradient && schedule.has(input.name + "@grad");
      });
  // Where gradients are multiplied by a factor of the step, tables wait for all sums.
  const std::size_t behind = tables_learn && !unscales() ? behind_bytes_wanted() : 0;
  bucket_wgrad(schedule, names::kWgrad, places, bucket_bytes_wanted(), behind);
}

void NetworkGraph::append_regularizers(StepSchedule& schedule, std::size_t local_batch) {
  for (const DenseLayerSpec& layer : layers_) {
    const Attributes& attributes = layer.attributes;
    if (!attributes.get_bool("use_regularizer", false) || layout_.count() == 0) continue;
    const std::string kind = attributes.get_string("regularizer_type", "L1");
    HCTR_CHECK(kind == "L1" || kind == "L2", layer.type, " \"", layer.tops.front(),
               "\": regularizer_type is \"", kind, "\", must be \"L1\" or \"L2\"");
    const RegularizerKind type = kind == "L1" ? RegularizerKind::L1 : RegularizerKind::L2;
    const double lambda = attributes.get_double("lambda", 0.0);
    // The shares of the devices are summed: each adds its part of what the formula asks for once.
    // By the samples of a whole batch: the last one of an epoch may have few, and would have the
    // penalty of many steps.
    const auto devices = static_cast<double>(options_.devices);
    const double share = 1.0 / (devices * devices * static_cast<double>(local_batch));
    const std::string& layer_name = layer.tops.front();
    RegularizerLoss loss;
    loss.w = schedule.ref(names::kWeights);
    loss.loss = schedule.ref(names::kLoss);
    loss.partial =
        schedule.add_tensor(layer_name + "@regularizer", {partial_rows(layout_.flat_size())},
                            TensorRole::Gradient, TensorScalarType::Float64);
    loss.kind = type;
    loss.lambda = lambda;
    loss.share = share;
    schedule.add_once(Phase::Loss, loss, layer_name);
    if (!schedule.has(names::kWgrad)) continue;
    RegularizerGrad gradient;
    gradient.w = schedule.ref(names::kWeights);
    if (scales_loss()) gradient.loss_scale = schedule.ref(names::kLossScale);
    gradient.dw = schedule.ref(names::kWgrad);
    gradient.kind = type;
    gradient.lambda = lambda;
    gradient.share = share;
    schedule.add_once(Phase::Backward, gradient, layer_name);
  }
}

// Gradients of the network are looked at when they have been summed, those of tables before they
// are exchanged: the devices sum their flags, so that all of them skip the same steps.
void NetworkGraph::append_loss_scaling(StepSchedule& schedule) {
  constexpr TensorRole kExternal = TensorRole::External;
  constexpr TensorScalarType kInt64 = TensorScalarType::Int64;
  FindOverflow find;
  find.xs = {schedule.ref(names::kWgrad)};
  for (const NetworkInput& input : inputs_) {  // the gradients of tables are summed in their update
    const std::string gradient = input.name + "@grad";
    if (input.needs_gradient && schedule.has(gradient)) find.xs.push_back(schedule.ref(gradient));
  }
  find.overflow = schedule.add_tensor(names::kOverflow, {1}, kExternal);
  schedule.add(Phase::Exchange, find, "loss_scale");
  if (options_.devices > 1) {
    schedule.add(Phase::Exchange, AllReduce{.data = find.overflow}, "loss_scale");
  }
  schedule.add(
      Phase::Exchange,
      LossScaleStep{.overflow = find.overflow,
                    .scale = schedule.ref(names::kLossScale),
                    .unscale = schedule.add_tensor(names::kUnscale, {1}, kExternal),
                    .good = schedule.add_tensor(names::kGoodSteps, {1}, kExternal, kInt64),
                    .skipped = schedule.add_tensor(names::kSkippedSteps, {1}, kExternal, kInt64),
                    .dynamic = options_.dynamic_loss_scale},
      "loss_scale");
}

void NetworkGraph::append_update(StepSchedule& schedule) {
  if (layout_.count() == 0) return;
  const TensorRef w = schedule.ref(names::kWeights), g = schedule.ref(names::kWgrad);
  DenseUpdate update;
  update.w = w;
  update.g = g;
  update.lr = schedule.ref(names::kLearningRate);
  update.step = schedule.ref(names::kDenseStep);
  if (state_count() > 0) {
    update.state0 =
        schedule.add_tensor(names::kState0, {layout_.flat_size()}, TensorRole::External);
  }
  if (state_count() > 1) {
    update.state1 =
        schedule.add_tensor(names::kState1, {layout_.flat_size()}, TensorRole::External);
  }
  if (scales_loss()) update.unscale = schedule.ref(names::kUnscale);
  if (clips_norm() && !scales_loss()) {
    update.unscale = schedule.add_tensor(names::kUnscale, {1}, TensorRole::External);
  }
  if (options_.in_16_bits()) {
    update.w_16 = schedule.add_tensor(names::kWeights16, {layout_.flat_size()},
                                      TensorRole::External, options_.compute_dtype);
  }
  update.params = options_.opt_params;
  schedule.add(Phase::Update, update, "update_params");
}

std::size_t NetworkGraph::state_count() const {
  return trains() ? num_states(options_.opt_params) : 0;
}

std::vector<float> NetworkGraph::initial_parameters() const {
  std::vector<float> all, values;
  all.reserve(layout_.count());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    values.assign(num_elements(parameters_[i].shape), 0.0f);
    parameters_[i].initialize(mix_key(options_.seed, i), values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace hugectr
