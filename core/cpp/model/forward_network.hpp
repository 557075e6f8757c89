// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/model/network.hpp"

namespace hugectr {

/// The evaluation schedule of a graph on the parameters of a Network: activations, inputs and
/// scalars of its own, for a batch size and a stream of its own. What the network learns is what
/// this one computes with from then on. Calls enqueue on the context's stream and return.
class HCTR_API ForwardNetwork {
 public:
  /// `graph`: of the same layers as the network's. The network must outlive this one, and nobody
  /// may change its parameters while records of this one run.
  ForwardNetwork(std::shared_ptr<const NetworkGraph> graph, const Network& parameters,
                 const OpContext& context, const std::shared_ptr<MemoryResource>& memory,
                 const std::string& owner);

  TensorRef tensor(const std::string& name) const { return schedule_->tensor(name); }
  bool has_tensor(const std::string& name) const { return schedule_->has(name); }
  /// Empty where there is no tensor of that name.
  TensorRef tensor_or_none(const std::string& name) const {
    return has_tensor(name) ? tensor(name) : TensorRef{};
  }
  /// (b) float32; 1 from the start.
  TensorRef sample_weight() const { return weight_.ref(); }
  TensorRef loss() const { return loss_.ref(); }
  void set_scalars(const StepScalars& scalars);

  /// All but the loss: what its input is, and everything before.
  void forward() { schedule_->run(Phase::Forward, Phase::Forward); }
  /// The loss too, for which label, sample weights and scalars must have been written.
  void forward_and_loss() { schedule_->run(Phase::Forward, Phase::Loss); }

  const NetworkGraph& graph() const { return *graph_; }
  std::vector<MemoryReportEntry> memory_report() const;

 private:
  std::shared_ptr<const NetworkGraph> graph_;
  OpContext context_;
  std::shared_ptr<DeviceBuffer2> buffer_;
  Tensor2<float> loss_, weight_;
  TensorBag2 scalars_;  ///< StepScalars
  std::unique_ptr<BoundSchedule> schedule_;
};

}  // namespace hugectr
