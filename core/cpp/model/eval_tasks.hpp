// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/cpp/metrics/eval_metrics.hpp"
#include "core/cpp/model/network_graph.hpp"
#include "core/cpp/model/spec.hpp"

/// From the losses of a network to what metrics are made of.
namespace hugectr {

/// A task in the evaluation schedule: columns of tensors, by name.
struct TaskColumns {
  EvalTask task;
  std::string scores, predictions, labels;
  std::string weights;  ///< "": those of the samples
  std::string logits;
  std::size_t column = 0, prediction_column = 0, weight_row = 0;
};

/// A task for every logit with a label of its own, and one for classes. Called like its label, with
/// the column's number where the label has several; like the loss where another task is called so.
std::vector<TaskColumns> eval_tasks(const NetworkGraph& graph);

EvalSubject eval_subject(const NetworkGraph& graph, const InputSpec& input);

/// Adds a device's rows of all tasks. `tensor`: those of the evaluation schedule by name.
void add_tasks(EvalMetrics& metrics, GPUResource& gpu, const std::vector<TaskColumns>& tasks,
               const InputSpec& input, const std::function<TensorRef(const std::string&)>& tensor,
               const TensorRef& sample_weight);

}  // namespace hugectr
