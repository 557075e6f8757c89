// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/network.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "core/cpp/comm/collective_ops.hpp"
#include "core/cpp/model/network_arrays.hpp"
#include "core/cpp/ops/clip_norm.hpp"
#include "core/cpp/schedule/split_samples.hpp"

namespace hugectr {
namespace {

/// `count` elements of a flat tensor from `offset` on, seen as `shape`.
TensorRef part(const TensorRef& flat, std::size_t offset, const Shape& shape) {
  TensorRef ref = flat;
  ref.data = static_cast<char*>(flat.data) + offset * size_of(flat.dtype);
  ref.shape = shape;
  ref.row_stride = ref.row_size();
  return ref;
}

/// What a variable says of work beside the step: 0 or 1; not set, what is `usual`.
bool beside(const char* variable, bool usual) {
  const char* const text = std::getenv(variable);
  const std::string_view word = text == nullptr ? "" : text;
  if (word.empty()) return usual;
  HCTR_CHECK(word == "0" || word == "1", variable, "=", word, ": 0 or 1 are allowed");
  return word == "1";
}

/// Whether vectors of tables come while layers run that need none of them: on several GPUs, where
/// they travel.
bool forward_beside(DeviceId device, std::size_t devices) {
  return beside("HUGECTR_FORWARD_BESIDE", devices > 1 && device.type != DeviceType::Cpu);
}

/// Whether tables are updated while the rest of backward runs, or behind it: a GPU does so, and
/// every one of several devices.
bool update_beside(DeviceId device, std::size_t devices) {
  return beside("HUGECTR_UPDATE_BESIDE", devices > 1 || device.type != DeviceType::Cpu);
}

/// When a constructor fails, its memory goes; nothing may be queued on it then.
class WaitForStream {
 public:
  explicit WaitForStream(Stream& stream) : stream_(stream) {}
  ~WaitForStream() {
    try {
      stream_.synchronize();
    } catch (const std::exception&) {  // the error that is on its way says more
    }
  }

 private:
  Stream& stream_;
};

}  // namespace

Network::Network(std::shared_ptr<const NetworkGraph> graph, GPUResource& gpu)
    : graph_(std::move(graph)), gpu_(gpu) {
  const NetworkOptions& options = graph_->options();
  const std::string owner = concat("network on ", to_string(gpu_.device()));
  buffer_ = DeviceBuffer2::create(owner, DeviceAllocator(gpu_.memory_resource()));
  std::map<std::string, TensorBag2> arrays;
  for (const NetworkArray& array : network_arrays(*graph_)) {
    arrays[array.name] = buffer_->reserve(array.shape, array.dtype, array.name);
  }
  const auto take = [&]<class T>(const char* name, Tensor2<T>& tensor) {
    const auto found = arrays.find(name);
    if (found != arrays.end()) tensor = Tensor2<T>::stretch_from(found->second);
  };
  namespace names = network_array_names;
  take(names::kWeights, weights_);
  take(names::kStatistics, non_trainables_);
  take(names::kLossEval, loss_eval_);
  take(names::kSampleWeightEval, weight_eval_);
  take(names::kNotFinite, not_finite_);
  take(names::kWgrad, wgrad_);
  take(names::kStates, states_);
  take(names::kLoss, loss_);
  take(names::kSampleWeight, weight_);
  take(names::kLossScale, loss_scale_);
  take(names::kUnscale, unscale_);
  take(names::kOverflow, overflow_);
  take(names::kGoodSteps, good_steps_);
  take(names::kSkippedSteps, skipped_steps_);
  take(names::kSquares, squares_);
  scalars_ = arrays.at(names::kScalars);
  if (options.in_16_bits()) memory_16_ = arrays.at(names::kWeights16);
  buffer_->allocate();
  if (options.in_16_bits()) {
    weights_16_ = weights_.ref();
    weights_16_.data = memory_16_.get_ptr();
    weights_16_.dtype = options.compute_dtype;
  }

  Stream& stream = gpu_.compute_stream();
  const WaitForStream wait(stream);
  for (const TensorRef& ref : {weights_.ref(), wgrad_.ref(), loss_.ref(), loss_eval_.ref(),
                               weight_.ref(), weight_eval_.ref()}) {
    if (!ref.empty()) stream.fill_zero(ref.data, ref.size_in_bytes());
  }
  round_weights_to_16_bits();
  const auto scale = static_cast<float>(options.loss_scale);
  if (scales_loss()) {
    stream.copy(loss_scale_.get_ptr(), &scale, sizeof(scale));
    for (const TensorRef& ref : {unscale_.ref(), good_steps_.ref(), skipped_steps_.ref()}) {
      stream.fill_zero(ref.data, ref.size_in_bytes());
    }
  }
  std::vector<float> initial;
  for (const NonTrainable& tensor : graph_->non_trainables()) {
    initial.insert(initial.end(), num_elements(tensor.shape), tensor.initial);
  }
  stream.copy(non_trainables_.get_ptr(), initial.data(), initial.size() * sizeof(float));
  reset_optimizer();
  set_scalars({});

  if (graph_->trains()) {
    updates_beside_ = update_beside(gpu_.device(), options.devices);
    if (options.devices > 1 || updates_beside_) {
      lane_ = std::make_unique<ExchangeLane>(gpu_.exchange_context(), gpu_.create_event(),
                                             gpu_.create_event(), gpu_.create_event());
    }
    train_ = std::make_unique<BoundSchedule>(graph_->train_schedule(), gpu_.compute_context(),
                                             gpu_.memory_resource(), owner + ", training",
                                             external(true), options.capture, lane_.get());
    watch_inputs();
  }
  if (graph_->has_eval()) {
    OpContext context = gpu_.compute_context();
    context.rows_alike = true;
    eval_ =
        std::make_unique<BoundSchedule>(graph_->eval_schedule(), context, gpu_.memory_resource(),
                                        owner + ", evaluation", external(false), options.capture);
  }
  stream.synchronize();  // `initial` and `scale` go out of scope
}

void Network::watch_inputs() {
  const std::size_t count = graph_->options().micro_batches;
  const auto part_of = [&](const std::string& name, std::size_t m) {
    return count == 1 ? name : name_in_micro_batch(name, m);
  };
  watches_inputs_ = true;
  const bool early = forward_beside(gpu_.device(), graph_->options().devices);
  waits_for_inputs_ = lane_ && (count > 1 || early);
  for (std::size_t m = 0; m < count; ++m) {
    std::vector<std::string> vectors, gradients;
    for (const NetworkInput& input : graph_->inputs()) {
      const std::string gradient = input.name + "@grad";
      if (train_->has(gradient)) gradients.push_back(part_of(gradient, m));
      if (input.needs_gradient) vectors.push_back(part_of(input.name, m));
    }
    watches_inputs_ &= train_->watch(gradients);
    if (!waits_for_inputs_) continue;
    const std::optional<std::size_t> before = train_->wait_for(vectors);
    // The first micro-batch may wait at once: the next ones come beside it.
    waits_for_inputs_ = before && (count > 1 || *before > 0);
  }
}

std::map<std::string, TensorRef> Network::parameter_refs() const {
  namespace names = schedule_names;
  std::map<std::string, TensorRef> refs = {{names::kWeights, weights_.ref()}};
  if (!weights_16_.empty()) refs[names::kWeights16] = weights_16_;
  for (std::size_t i = 0; i < graph_->parameters().size(); ++i) {
    const Parameter& parameter = graph_->parameters()[i];
    const std::size_t offset = graph_->layout().offsets()[i];
    refs[parameter.name] = part(weights_.ref(), offset, parameter.shape);
    if (!weights_16_.empty()) {
      refs[name_in_16_bits(parameter.name)] = part(weights_16_, offset, parameter.shape);
    }
  }
  std::size_t offset = 0;
  for (const NonTrainable& tensor : graph_->non_trainables()) {
    refs[tensor.name] = part(non_trainables_.ref(), offset, tensor.shape);
    offset += num_elements(tensor.shape);
  }
  return refs;
}

std::map<std::string, TensorRef> Network::external(bool train) const {
  namespace names = schedule_names;
  std::map<std::string, TensorRef> refs = parameter_refs();
  refs.merge(step_scalar_refs(scalars_.ref(), train ? graph_->options().micro_batches : 1));
  refs[names::kSampleWeight] = sample_weight(train);
  refs[names::kLoss] = loss(train);
  const std::size_t count = graph_->layout().flat_size();
  if (scales_loss()) {
    refs[names::kLossScale] = loss_scale_.ref();
    refs[names::kGoodSteps] = good_steps_.ref();
    refs[names::kSkippedSteps] = skipped_steps_.ref();
    refs[names::kOverflow] = overflow_.ref();
  }
  if (graph_->unscales()) refs[names::kUnscale] = unscale_.ref();
  if (graph_->state_count() > 0) refs[names::kState0] = part(states_.ref(), 0, {count});
  if (graph_->state_count() > 1) refs[names::kState1] = part(states_.ref(), count, {count});
  if (!train) return refs;
  refs[names::kWgrad] = wgrad();
  for (std::size_t i = 0; i < graph_->parameters().size(); ++i) {
    const Parameter& parameter = graph_->parameters()[i];
    refs[parameter.name + "@grad"] =
        part(wgrad_.ref(), graph_->layout().offsets()[i], parameter.shape);
  }
  return refs;
}

TensorRef Network::tensor(const std::string& name, bool train) const {
  HCTR_CHECK(train || eval_, "the model has no evaluation network");
  HCTR_CHECK(!train || train_, "the model does not train: it has no training network, ask for '",
             name, "' of the evaluation network");
  return (train ? train_ : eval_)->tensor(name);
}

bool Network::has_tensor(const std::string& name, bool train) const {
  const auto& schedule = train ? train_ : eval_;
  return schedule && schedule->has(name);
}

void Network::set_scalars(const StepScalars& scalars) {
  gpu_.compute_stream().copy_scalars(scalars_.get_ptr(), &scalars, sizeof scalars);
}

void Network::bring_first_inputs(const MicroBatchWork& bring_inputs) {
  lane_->submit(gpu_.compute_stream(), [&] { bring_inputs(0); });
}

void Network::train(bool with_sums, const MicroBatchWork& take_gradients,
                    const MicroBatchWork& bring_inputs) {
  Stream& stream = gpu_.compute_stream();
  if (lane_) lane_->set_used(with_sums);
  stream.fill_zero(wgrad_.get_ptr(), wgrad_.get_size_in_bytes());
  const auto submit = [&](const MicroBatchWork& work, std::size_t m) {
    lane_->submit(stream, [&] { work(m); });
  };
  std::size_t taken = 0, brought = 1;
  std::function<void()> completed, needed;
  if (take_gradients) completed = [&] { submit(take_gradients, taken++); };
  if (bring_inputs) {
    needed = [&] {
      lane_->join(stream);
      if (brought < graph_->options().micro_batches) submit(bring_inputs, brought++);
    };
  }
  train_->run(Phase::Forward, Phase::Backward, completed, needed);
}

void Network::update_inputs(const std::function<void()>& work) { lane_->end_with(work); }

void Network::wait_for_inputs() {
  if (lane_) lane_->join_end(gpu_.compute_stream());
}

void Network::exchange_wgrad() { train_->run(Phase::Exchange, Phase::Exchange); }

TensorRef Network::clear_row_squares() {
  const TensorRef ref = part(squares_.ref(), 1, {1});
  gpu_.compute_stream().fill_zero(ref.data, ref.size_in_bytes());
  return ref;
}

void Network::clip_norm(bool with_weights) {
  const OpContext context = gpu_.compute_context();
  if (graph_->options().devices > 1) {
    run(context, AllReduce{.data = part(squares_.ref(), 1, {1})});
  }
  const TensorRef of_weights = part(squares_.ref(), 0, {1});
  if (with_weights && wgrad_.get_num_elements() > 0) {
    run(context, SquareSum{.x = wgrad_.ref(), .sum = of_weights});
  } else {
    gpu_.compute_stream().fill_zero(of_weights.data, of_weights.size_in_bytes());
  }
  run(context, ClipNorm{.squares = squares_.ref(),
                        .unscale = unscale_.ref(),
                        .clip_norm = graph_->options().opt_params.clip_norm,
                        .scaled = scales_loss()});
}

void Network::update_params() { train_->run(Phase::Update, Phase::Update); }
void Network::eval() { eval_->run(Phase::Forward, Phase::Loss); }

void Network::forward() { train_->run(Phase::Forward, Phase::Loss); }

void Network::backward() {
  gpu_.compute_stream().fill_zero(wgrad_.get_ptr(), wgrad_.get_size_in_bytes());
  train_->run(Phase::Backward, Phase::Backward);
}

void Network::reset_optimizer() {
  if (graph_->state_count() == 0) return;
  std::vector<float> values;
  for (const float start : state_starts(graph_->options().opt_params)) {
    values.insert(values.end(), graph_->layout().count(), start);
  }
  set_dense_optimizer_states(values);
}

std::vector<MemoryReportEntry> Network::memory_report(bool by_tensor) const {
  std::vector<MemoryReportEntry> report = buffer_->report();
  for (const auto* schedule : {train_.get(), eval_.get()}) {
    if (!schedule) continue;
    const auto& part = by_tensor ? schedule->memory_report() : schedule->arena_report();
    report.insert(report.end(), part.begin(), part.end());
  }
  return report;
}

std::size_t Network::captured_pieces() const {
  return (train_ ? train_->captured_pieces() : 0) + (eval_ ? eval_->captured_pieces() : 0);
}

std::vector<std::string> Network::op_names(bool train) const {
  return (train ? train_ : eval_)->op_names();
}

}  // namespace hugectr
