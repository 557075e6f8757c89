// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/export.hpp"
#include "core/cpp/base/label_range.hpp"
#include "core/cpp/layers/layer_spec.hpp"
#include "core/cpp/layers/loss_outputs.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

/// How a dense layer is written. A layer never runs anything and never sees a device: build()
/// declares parameters and tops and appends forward records; backward() appends backward records.
namespace hugectr {

/// A trainable tensor. Offsets into the flat parameter buffer are given in the order of add().
struct Parameter {
  std::string name;  ///< "<layer top>.<weight|bias|...>"
  std::string layer;
  Shape shape;
  /// Fills host values; `stream` is unique for (seed, parameter index).
  std::function<void(std::uint64_t stream, std::vector<float>& values)> initialize;
};

/// Not trained, but saved with the model: BatchNorm running statistics. A mean is the sum of two.
struct NonTrainable {
  std::string name;  ///< "<layer top>.<mean|mean_low|var>"
  std::string layer;
  Shape shape;
  float initial = 0.0f;
};

/// Sees the whole job the layer runs in.
struct BuildInfo {
  bool train = true;
  std::size_t local_batch = 0;   ///< rows on one device, padding included
  std::size_t global_batch = 0;  ///< rows on all devices, padding included
  std::size_t devices = 1;       ///< global count
  std::uint64_t seed = 0;
  /// What ops that take 16 bits compute in; float32 without mixed precision.
  TensorScalarType compute_dtype = TensorScalarType::Float32;
  /// Each loss has a tensor of its own, and the network adds them up; else the one loss is kLoss.
  bool sums_losses = false;
};

/// Names under which every schedule has these External tensors.
namespace schedule_names {
inline constexpr const char* kSampleWeight =
    "@sample_weight";  ///< (b) float32: the data's, 0 for padding
inline constexpr const char* kInvWeightSum =
    "@inv_weight_sum";                         ///< (1) float32: 1 / samples of the global batch
inline constexpr const char* kStep = "@step";  ///< (1) int64: training step, from 1
/// (1) int64: number of the dense weights' own update, without steps that they were frozen in
inline constexpr const char* kDenseStep = "@dense_step";
inline constexpr const char* kFirstSample =
    "@first_sample";  ///< (1) int64: global row of local row 0, of each micro-batch
inline constexpr const char* kLearningRate = "@lr";  ///< (1) float32
/// (1) float32: factor of all gradients, only where a loss scale is in use
inline constexpr const char* kLossScale = "@loss_scale";
inline constexpr const char* kLoss = "@loss";  ///< (1) float32: this device's share of the loss
}  // namespace schedule_names

/// What layers append to.
class HCTR_API LayerBuilder {
 public:
  LayerBuilder(StepSchedule& schedule, BuildInfo info) : schedule_(schedule), info_(info) {}

  const BuildInfo& info() const { return info_; }
  /// A tensor that another layer or the input made.
  TensorRef bottom(const std::string& name) const;
  /// Declares a top: float32, or 16 bits in mixed precision where the ops take them.
  TensorRef top(const std::string& name, const Shape& shape);
  /// Declares a top of exactly this type.
  TensorRef top(const std::string& name, const Shape& shape, TensorScalarType dtype);
  /// Declares a top that is a name and a shape only: models of the original hand such tops from one
  /// fused layer to the next. Nothing writes it, it takes no memory, and bottom() refuses it.
  void helper(const std::string& name, const Shape& shape);
  bool is_helper(const std::string& name) const { return helpers_.count(name) != 0; }
  /// Declares scratch of this layer that lives until its backward has run. The name is
  /// "<first top>@<what>"; the memory is shared with tensors that are not alive at the same time.
  /// The type is that of a top.
  TensorRef scratch(const std::string& name, const Shape& shape);
  TensorRef scratch(const std::string& name, const Shape& shape, TensorScalarType dtype);
  /// Declares (train and eval schedules declare the same ones, in the same order).
  TensorRef parameter(Parameter parameter);
  TensorRef non_trainable(NonTrainable tensor);
  /// Gradient of a parameter: backward ACCUMULATES into it (it starts as the regulariser's part).
  TensorRef parameter_gradient(const TensorRef& parameter);
  /// Gradient of a top or bottom; backward OVERWRITES the bottoms' gradients.
  TensorRef gradient(const std::string& tensor_name);
  /// False for the dense input and labels: their gradient need not be computed. A layer without
  /// parameters whose bottoms all need none marks its tops so in forward().
  bool needs_gradient(const std::string& tensor_name) const;
  void mark_no_gradient(const std::string& tensor_name);
  /// A layer whose values for one sample depend on which others are in the batch says so in
  /// forward(): predictions then keep batches as they are asked for.
  void mark_samples_meet() { samples_meet_ = true; }
  bool samples_meet() const { return samples_meet_; }
  TensorRef external(const char* schedule_name) const { return schedule_.ref(schedule_name); }
  /// The factor of all gradients, for losses; empty (1) without loss scaling.
  TensorRef loss_scale() const {
    const bool scales = schedule_.has(schedule_names::kLossScale);
    return scales ? schedule_.ref(schedule_names::kLossScale) : TensorRef{};
  }

  void forward(AnyOp op, const std::string& layer) {
    schedule_.add(Phase::Forward, std::move(op), layer);
  }
  void loss(AnyOp op, const std::string& layer) {
    schedule_.add(Phase::Loss, std::move(op), layer);
  }
  void backward(AnyOp op, const std::string& layer) {
    schedule_.add(Phase::Backward, std::move(op), layer);
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<NonTrainable>& non_trainables() const { return non_trainables_; }
  StepSchedule& schedule() { return schedule_; }

 private:
  StepSchedule& schedule_;
  BuildInfo info_;
  std::vector<Parameter> parameters_;
  std::vector<NonTrainable> non_trainables_;
  std::set<std::string> no_gradient_, helpers_;
  bool samples_meet_ = false;
};

class HCTR_API Layer {
 public:
  explicit Layer(DenseLayerSpec spec) : spec_(std::move(spec)) {}
  virtual ~Layer() = default;
  const DenseLayerSpec& spec() const { return spec_; }
  /// First top: what messages call the layer.
  const std::string& name() const { return spec_.tops.empty() ? spec_.type : spec_.tops.front(); }
  /// Checks bottoms and attributes (InvalidArgument naming layer and parameter), declares
  /// parameters and tops, appends forward records.
  virtual void forward(LayerBuilder& builder) = 0;
  /// Appends backward records; called in reverse layer order after all forward() calls.
  virtual void backward(LayerBuilder& builder) = 0;
  virtual bool is_loss() const { return false; }
  /// The labels a loss is defined for: what readers hold the data to.
  virtual LabelRange labels() const { return {}; }
  /// What a loss reads and makes, after forward(); null of other layers.
  virtual const LossOutputs* loss_outputs() const { return nullptr; }

 protected:
  /// bottoms/tops counts as asked (max 0 = any number), else InvalidArgument.
  void expect(std::size_t min_bottoms, std::size_t max_bottoms, std::size_t tops) const;
  /// forward() may write what it learned from shapes into the spec (Slice: full ranges).
  DenseLayerSpec& resolved_spec() { return spec_; }

 private:
  DenseLayerSpec spec_;
};

/// Makes a layer from its spec; an unknown type throws InvalidArgument listing the known ones.
HCTR_API std::unique_ptr<Layer> make_layer(const DenseLayerSpec& spec);
HCTR_API std::vector<std::string> layer_types();

}  // namespace hugectr
