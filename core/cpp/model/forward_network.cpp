// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/forward_network.hpp"

#include <utility>

namespace hugectr {

ForwardNetwork::ForwardNetwork(std::shared_ptr<const NetworkGraph> graph, const Network& parameters,
                               const OpContext& context,
                               const std::shared_ptr<MemoryResource>& memory,
                               const std::string& owner)
    : graph_(std::move(graph)), context_(context) {
  namespace names = schedule_names;
  context_.rows_alike = true;
  const std::size_t batch = graph_->options().local_batch_eval;
  buffer_ = DeviceBuffer2::create(owner, DeviceAllocator(memory));
  scalars_ = buffer_->reserve({sizeof(StepScalars)}, TensorScalarType::UInt8, "step scalars");
  buffer_->reserve({1}, &loss_, "loss");
  buffer_->reserve({batch}, &weight_, "sample weights");
  buffer_->allocate();
  std::map<std::string, TensorRef> external = parameters.parameter_refs();
  external.merge(step_scalar_refs(scalars_.ref()));
  external[names::kSampleWeight] = weight_.ref();
  external[names::kLoss] = loss_.ref();
  schedule_ = std::make_unique<BoundSchedule>(graph_->eval_schedule(), context_, memory, owner,
                                              external, graph_->options().capture);
  const std::vector<float> ones(batch, 1.0f);
  context_.stream->copy(weight_.get_ptr(), ones.data(), batch * sizeof(float));
  set_scalars({});
  context_.stream->synchronize();  // `ones` goes
}

void ForwardNetwork::set_scalars(const StepScalars& scalars) {
  context_.stream->copy_scalars(scalars_.get_ptr(), &scalars, sizeof scalars);
}

std::vector<MemoryReportEntry> ForwardNetwork::memory_report() const {
  std::vector<MemoryReportEntry> report = buffer_->report();
  const auto& of_schedule = schedule_->memory_report();
  report.insert(report.end(), of_schedule.begin(), of_schedule.end());
  return report;
}

}  // namespace hugectr
