// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/model/loss_scaling_state.hpp"
#include "core/cpp/model/network_graph.hpp"
#include "core/cpp/model/step_scalars.hpp"
#include "core/cpp/schedule/bound_schedule.hpp"
#include "core/cpp/schedule/exchange_lane.hpp"

namespace hugectr {

/// The dense network on one device: replicated parameters, gradients, optimizer states and the
/// bound schedules. All functions enqueue on the device's compute stream and return. Where the
/// graph does not train there is nothing of training: no gradients, no states, no schedule.
class HCTR_API Network {
 public:
  Network(std::shared_ptr<const NetworkGraph> graph, GPUResource& gpu);

  /// Memory of a tensor of the training (or evaluation) schedule, to be written before the records
  /// run or read after them. InvalidArgument when unknown or fused away.
  TensorRef tensor(const std::string& name, bool train) const;
  bool has_tensor(const std::string& name, bool train) const;

  void set_scalars(const StepScalars& scalars);
  /// Work for one micro-batch, by its number; without them the one that is the whole batch.
  using MicroBatchWork = std::function<void(std::size_t)>;
  /// Puts what writes inputs of the first micro-batch on the exchange stream. The sooner the
  /// better: it runs beside all that the step begins with.
  void bring_first_inputs(const MicroBatchWork& bring_inputs);
  /// Clears gradients; forward, loss, backward. The inputs must have been written. Gradients are
  /// summed over all devices bucket by bucket, while backward goes on, if `with_sums`.
  /// `take_gradients`, if given, is called once a micro-batch when the gradients of its inputs have
  /// been submitted: what it puts on the exchange stream runs beside the rest of backward, before
  /// the sums of dense gradients that come later.
  /// `bring_inputs`: puts what writes those inputs of the next micro-batch on the exchange stream,
  /// beside the one before it. bring_first_inputs() with the same has gone before.
  void train(bool with_sums = true, const MicroBatchWork& take_gradients = {},
             const MicroBatchWork& bring_inputs = {});
  /// Whether inputs may come so: there are several micro-batches, or it is asked for and layers
  /// come before the first that reads one.
  bool brings_inputs_beside() const { return lane_ && waits_for_inputs_; }
  /// Whether inputs are updated beside backward: that is wanted, and nothing decides after backward
  /// what the gradients are multiplied by.
  bool updates_inputs_beside() const {
    return updates_beside_ && watches_inputs_ && !graph_->unscales();
  }
  /// Behind train(): puts the update of inputs on the exchange stream, behind the sums of dense
  /// gradients, so that these do not wait for it. wait_for_inputs() follows.
  void update_inputs(const std::function<void()>& work);
  /// Waits, in stream order, until inputs are updated.
  void wait_for_inputs();
  /// Waits, in stream order, for those sums; loss scaling looks at them. Follows every train().
  void exchange_wgrad();
  bool clips_norm() const { return graph_->clips_norm(); }
  /// (1) float64 for the squares of this device's rows' gradients, set to 0.
  TensorRef clear_row_squares();
  /// Makes unscale() the factor that holds the norm of the gradients of all rows, of all devices,
  /// and, if `with_weights`, of the dense weights. Collective. Follows exchange_wgrad().
  void clip_norm(bool with_weights);
  void update_params();
  /// Forward of the evaluation schedule with the same parameters.
  void eval();

  // For single passes in tests.
  void forward();
  void backward();

  TensorRef weights() const { return weights_.ref(); }
  TensorRef wgrad() const { return wgrad_.ref(); }
  TensorRef lr() const {
    return step_scalar(scalars_.ref(), offsetof(StepScalars, lr), TensorScalarType::Float32);
  }
  TensorRef step() const {
    return step_scalar(scalars_.ref(), offsetof(StepScalars, step), TensorScalarType::Int64);
  }
  /// This device's share of the loss of the last training (or evaluation) batch.
  TensorRef loss(bool train) const { return train ? loss_.ref() : loss_eval_.ref(); }
  TensorRef sample_weight(bool train) const { return train ? weight_.ref() : weight_eval_.ref(); }
  /// What the gradients of this step are multiplied by before they are used: 1 / loss scale, or 0
  /// when it overflowed and is skipped (exchange_wgrad() writes it), and less where clip_norm()
  /// holds their norm. Empty without either.
  TensorRef unscale() const { return unscale_.ref(); }
  bool scales_loss() const { return graph_->scales_loss(); }
  /// The loss scale of the next step and what it goes on from. Both wait for the compute stream.
  LossScalingState loss_scaling_state() const;
  void set_loss_scaling_state(const LossScalingState& state);
  /// Optimizer states, one array after the other.
  TensorRef states() const { return states_.ref(); }
  // Parameters and optimizer states as files have them: packed, in file order. These calls wait
  // for the compute stream.
  std::vector<float> dense_weights() const;
  void set_dense_weights(const std::vector<float>& values);
  std::vector<float> dense_optimizer_states() const;
  void set_dense_optimizer_states(const std::vector<float>& values);
  /// Weights, their 16-bit copies and running statistics by their names in a schedule: what a
  /// ForwardNetwork shares. They stay where they are as long as the network lives.
  std::map<std::string, TensorRef> parameter_refs() const;
  /// Values of all non-trainable tensors, in the graph's order.
  TensorRef non_trainables() const { return non_trainables_.ref(); }
  /// Mixed precision: rounds the weights into the copy that 16-bit ops read. For who writes
  /// weights() directly; set_dense_weights() and update_params() keep the copy up to date
  /// themselves.
  void round_weights_to_16_bits();
  /// Waits for the compute stream.
  bool weights_are_finite() const;
  /// Fills the optimizer states with their start value.
  void reset_optimizer();

  /// Tensors of a schedule share memory, and their entries overlap; without `by_tensor` there is
  /// one for all of them.
  std::vector<MemoryReportEntry> memory_report(bool by_tensor = true) const;
  std::vector<std::string> op_names(bool train) const;
  /// Pieces of both schedules that are replayed as a whole by now.
  std::size_t captured_pieces() const;

 private:
  std::map<std::string, TensorRef> external(bool train) const;
  void watch_inputs();

  std::shared_ptr<const NetworkGraph> graph_;
  GPUResource& gpu_;
  std::shared_ptr<DeviceBuffer2> buffer_;
  Tensor2<float> weights_, wgrad_, states_, non_trainables_, loss_, loss_eval_, weight_,
      weight_eval_, loss_scale_, unscale_, overflow_, not_finite_;
  Tensor2<double> squares_;  ///< of the dense weights' gradients, of the rows'
  Tensor2<std::int64_t> good_steps_, skipped_steps_;
  TensorBag2 scalars_;  ///< StepScalars
  TensorBag2 memory_16_;
  TensorRef weights_16_;                         ///< empty without mixed precision
  std::unique_ptr<ExchangeLane> lane_;           ///< null where nothing runs beside a step
  std::unique_ptr<BoundSchedule> train_, eval_;  ///< null: the graph has none
  bool updates_beside_ = false, watches_inputs_ = false, waits_for_inputs_ = false;
};

}  // namespace hugectr
