// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/cpp/layers/layer.hpp"
#include "core/cpp/model/parameter_layout.hpp"
#include "core/cpp/optimizers/optimizers.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

/// The dense network before it meets a device: its step schedules and the layout of its flat
/// parameter buffer. Built once per model, shared by all devices.
namespace hugectr {

/// A tensor the network gets from outside: the dense features, the label, an embedding's output.
struct NetworkInput {
  std::string name;
  Shape shape;  ///< on one device: dimension 0 is the local batch of each schedule
  bool needs_gradient = false;
  bool may_be_16_bits = true;  ///< 16 bits in mixed precision; labels stay float32
};

/// Names, beside schedule_names, of the flat buffers that whole-network records work on.
namespace schedule_names {
inline constexpr const char* kWeights = "@weights";
inline constexpr const char* kWeights16 = "@weights16";  ///< what 16-bit ops read
inline constexpr const char* kWgrad = "@wgrad";
inline constexpr const char* kOverflow = "@overflow";  ///< (1)
inline constexpr const char* kUnscale = "@unscale";
inline constexpr const char* kGoodSteps = "@good_steps";
inline constexpr const char* kSkippedSteps = "@skipped_steps";
inline constexpr const char* kState0 = "@state0";
inline constexpr const char* kState1 = "@state1";
inline constexpr const char* kLogits = "@logits";  ///< of several losses, side by side
}  // namespace schedule_names

struct NetworkOptions {
  std::size_t local_batch = 0;       ///< 0: no training schedule
  std::size_t local_batch_eval = 0;  ///< 0: no evaluation schedule
  std::size_t devices = 1;           ///< of the whole job
  std::uint64_t seed = 0;
  OptParams opt_params;
  /// Float16 or BFloat16: mixed precision. Weights, their gradients and optimizer states stay
  /// float32.
  TensorScalarType compute_dtype = TensorScalarType::Float32;
  bool in_16_bits() const { return compute_dtype != TensorScalarType::Float32; }
  /// Float16: gradients are computed times this (where dynamic scaling begins). 0: no loss scaling.
  double loss_scale = 0.0;
  bool dynamic_loss_scale = false;
  /// BFloat16: products of linear layers in fp8 where they train (products_in_fp8).
  bool fp8 = false;
  bool capture = false;  ///< submit ranges of phases as a whole where the device can
  /// Parts of local_batch that go through training one after the other; local_batch is a multiple.
  std::size_t micro_batches = 1;
};

class HCTR_API NetworkGraph {
 public:
  /// Inserts automatic Slice layers, builds layers, fuses. Throws InvalidArgument naming the layer,
  /// or when there is to be no schedule at all.
  NetworkGraph(const std::vector<NetworkInput>& inputs, const std::vector<DenseLayerSpec>& layers,
               const NetworkOptions& options);

  const StepSchedule& train_schedule() const { return train_; }
  const StepSchedule& eval_schedule() const { return eval_; }
  bool trains() const { return options_.local_batch > 0; }
  bool has_eval() const { return options_.local_batch_eval > 0; }
  const NetworkOptions& options() const { return options_; }
  const std::vector<NetworkInput>& inputs() const { return inputs_; }

  /// Parameters in file order, and where they lie in the flat buffers of a device.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const ParameterLayout& layout() const { return layout_; }
  bool scales_loss() const { return options_.loss_scale > 0.0; }
  /// Whether the norm of a step's gradients is held; no update begins before it is known.
  bool clips_norm() const { return trains() && options_.opt_params.clip_norm > 0.0f; }
  /// Whether gradients are multiplied by a factor of the step.
  bool unscales() const { return scales_loss() || clips_norm(); }
  const std::vector<NonTrainable>& non_trainables() const { return non_trainables_; }
  /// Optimizer state arrays: 0 (SGD, or nothing trains), 1, or 2 (Adam).
  std::size_t state_count() const;
  /// First values of the parameters in file order, the same on every device and for every device
  /// count.
  std::vector<float> initial_parameters() const;

  /// As run, automatic Slice layers included.
  const std::vector<DenseLayerSpec>& layers() const { return layers_; }
  /// The losses in the order of their layers; what they make in evaluation only with an evaluation
  /// schedule.
  const std::vector<LossOutputs>& losses() const { return losses_; }
  bool has_loss() const { return !losses_.empty(); }
  /// Name of the tensor of the evaluation schedule that has the logits of all losses side by side,
  /// (b, columns of all). "" without loss.
  const std::string& logits_name() const { return logits_; }
  /// Whether what evaluation makes of one sample depends on the others of its batch.
  bool samples_meet() const { return samples_meet_; }
  /// What the losses allow in each column of the inputs, by the name of the input.
  const std::map<std::string, std::vector<LabelRange>>& label_ranges() const {
    return label_ranges_;
  }
  /// Shape of a layer's top before fusion (dimension 0: the local batch of training, if there is
  /// any, else of evaluation); empty for a loss.
  Shape top_shape(const std::string& name) const {
    const auto found = top_shapes_.find(name);
    return found == top_shapes_.end() ? Shape{} : found->second;
  }

 private:
  void build(StepSchedule& schedule, bool train);
  /// What all schedules have in common, from one in which there is nothing but layers' forward.
  void describe(const StepSchedule& schedule, const LayerBuilder& builder,
                const std::vector<std::unique_ptr<Layer>>& built);
  void append_training(StepSchedule& schedule, LayerBuilder& builder,
                       const std::vector<std::unique_ptr<Layer>>& built);
  void append_evaluation(StepSchedule& schedule);
  /// Their logits side by side, and what of them is read after the schedule has run.
  void append_predictions(StepSchedule& schedule);
  void append_total_loss(StepSchedule& schedule);
  void append_regularizers(StepSchedule& schedule, std::size_t local_batch);
  void append_loss_scaling(StepSchedule& schedule);
  void append_update(StepSchedule& schedule);
  void exchange_while_backward(StepSchedule& schedule) const;
  /// InvalidArgument naming a layer that needs all samples of a batch at once.
  void check_in_micro_batches(const Layer& layer, const LayerBuilder& builder) const;
  void into_micro_batches(StepSchedule& schedule) const;

  NetworkOptions options_;
  std::vector<NetworkInput> inputs_;
  std::vector<DenseLayerSpec> layers_;
  StepSchedule train_, eval_;
  std::vector<Parameter> parameters_;
  ParameterLayout layout_;
  std::vector<NonTrainable> non_trainables_;
  std::vector<LossOutputs> losses_;
  std::string logits_;
  bool samples_meet_ = false;
  std::map<std::string, std::vector<LabelRange>> label_ranges_;
  std::map<std::string, Shape> top_shapes_;
};

}  // namespace hugectr
