// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/eval_tasks.hpp"

#include <algorithm>
#include <utility>

namespace hugectr {
namespace {

TensorRef column_of(TensorRef ref, std::size_t column) {
  ref.data = static_cast<char*>(ref.data) + column * size_of(ref.dtype);
  ref.shape = {ref.shape[0], 1};
  return ref;
}

TensorRef weights_of(const TaskColumns& task, const TensorRef& tensor) {
  if (tensor.shape.size() == 1) return tensor;
  TensorRef row = tensor;
  row.data = tensor.row<float>(task.weight_row);
  row.shape = {tensor.shape[1]};
  row.row_stride = 1;
  return row;
}

}  // namespace

std::vector<TaskColumns> eval_tasks(const NetworkGraph& graph) {
  std::vector<TaskColumns> tasks;
  for (const LossOutputs& loss : graph.losses()) {
    const bool classes = loss.prediction == Prediction::Softmax;
    const std::size_t columns = classes ? 1 : loss.columns;
    const auto named = [&](const std::string& name) {
      return std::ranges::any_of(tasks,
                                 [&](const TaskColumns& other) { return other.task.name == name; });
    };
    for (std::size_t j = 0; j < columns; ++j) {
      const std::string number = columns > 1 ? concat("_", j) : std::string();
      std::string name = loss.labels + number;
      if (named(name)) name = loss.name + number;
      tasks.push_back({.task = {std::move(name), loss.prediction, !loss.scores.empty()},
                       .scores = loss.scores,
                       .predictions = loss.predictions,
                       .labels = loss.labels,
                       .weights = loss.weights,
                       .logits = loss.logits,
                       .column = j,
                       .prediction_column = classes ? 1 : j,
                       .weight_row = j});
    }
  }
  return tasks;
}

EvalSubject eval_subject(const NetworkGraph& graph, const InputSpec& input) {
  EvalSubject subject{{}, {}, !input.group_name.empty()};
  for (const TaskColumns& task : eval_tasks(graph)) subject.tasks.push_back(task.task);
  for (const LossOutputs& loss : graph.losses()) subject.losses.push_back(loss.name);
  return subject;
}

void add_tasks(EvalMetrics& metrics, GPUResource& gpu, const std::vector<TaskColumns>& tasks,
               const InputSpec& input, const std::function<TensorRef(const std::string&)>& tensor,
               const TensorRef& sample_weight) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskColumns& task = tasks[i];
    EvalRows rows;
    const bool classes = task.task.prediction == Prediction::Softmax;
    const TensorRef logits = tensor(task.logits);
    rows.logits = classes ? logits : column_of(logits, task.column);
    if (task.task.has_score) rows.scores = column_of(tensor(task.scores), task.column);
    rows.labels = column_of(tensor(task.labels), task.column);
    rows.predictions = column_of(tensor(task.predictions), task.prediction_column);
    rows.weights = task.weights.empty() ? sample_weight : weights_of(task, tensor(task.weights));
    if (!input.group_name.empty()) rows.groups = tensor(input.group_name);
    metrics.add(gpu, rows, i);
  }
}

}  // namespace hugectr
