// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/shape.hpp"
#include "core/cpp/device/tensor_view.hpp"
#include "core/cpp/layers/layer_spec.hpp"
#include "core/cpp/model/loss_scaling_state.hpp"

namespace hugectr {

struct SessionState;

/// Running statistics of a BatchNorm.
struct NonTrainableValues {
  std::string layer;         ///< its first top
  std::vector<double> mean;  ///< 48 bits are kept
  std::vector<float> var;
};

/// The dense network of a Session, the same on every device: parameters in and out, tensors, and
/// their memory without a copy (a view keeps the whole model alive, also after the Session has
/// gone; what it shows changes with every later step).
class HCTR_API SessionNetwork {
 public:
  explicit SessionNetwork(SessionState& session);

  /// The dense layers as run, the automatic Slice layers included.
  const std::vector<DenseLayerSpec>& layers() const;

  // Flat vectors in file order (layers in add order); a call that sets one gives it to every
  // device. A model that does not train has no optimizer states.
  std::vector<float> dense_weights();
  void set_dense_weights(const std::vector<float>& values);
  std::vector<float> dense_optimizer_states();
  void set_dense_optimizer_states(const std::vector<float>& values);
  /// As they are before the first step.
  void reset_dense_optimizer_states();
  std::vector<NonTrainableValues> non_trainables();
  void set_non_trainables(const std::vector<NonTrainableValues>& values);
  /// The scale of the next step (1 without loss scaling), and how many steps were skipped because a
  /// gradient overflowed. A skipped step changes no weight, state or row; it counts as a step.
  LossScalingState loss_scaling_state() const;
  void set_loss_scaling_state(const LossScalingState& state);

  /// Content of a tensor after the last train() or eval(), all local devices one after the other;
  /// tensors of 16 bits are widened. `shape`, unless null, is that of all of them.
  std::vector<float> check_out_tensor(const std::string& name, bool train, Shape* shape);
  /// The same tensor on one local device: its part of the batch.
  TensorView tensor_view(const std::string& name, bool train, std::size_t local_id);
  /// Names of the dense parameters in file order: "<layer top>.<weight|bias|...>".
  std::vector<std::string> weight_names() const;
  /// A dense parameter, float32.
  TensorView weight_view(const std::string& name, std::size_t local_id);
  /// The optimizer's state number `state` of a dense parameter: m, v (Adam), the accumulator or the
  /// momentum; float32, of the parameter's shape.
  TensorView state_view(const std::string& name, std::size_t state, std::size_t local_id);
  /// Gives a dense parameter these values (its shape, float32; on the host, or on a CUDA device for
  /// a model there) on every device; waits for it.
  void set_weight(const std::string& name, const TensorView& values);

  /// Pieces of the schedules that are replayed as a whole by now, on all local devices.
  std::size_t captured_pieces() const;

 private:
  SessionState& session_;
};

}  // namespace hugectr
