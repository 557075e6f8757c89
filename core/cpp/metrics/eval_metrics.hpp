// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/losses/prediction.hpp"
#include "core/cpp/metrics/eval_rows.hpp"

namespace hugectr {

/// A metric of the catalogue during an evaluation: what is added, merged over devices and
/// processes, and made one value.
class IMetric {
 public:
  virtual ~IMetric() = default;
  /// One device's rows of a batch, in order of its compute stream; a thread a device.
  virtual void add(GPUResource&, const EvalRows&) {}
  /// The mean loss of a whole batch, over all devices of the job, and the samples it is the mean
  /// of.
  virtual void add_batch(double /*loss*/, double /*samples*/) {}
  /// The value of everything since the last call, on all devices of the job: the same in every
  /// process. Then starts anew. Collective; waits for the devices.
  virtual double take(ResourceManager& resources) = 0;
};

/// One prediction a sample, with a label of its own.
struct EvalTask {
  std::string name;  ///< of its values, where there are several tasks
  Prediction prediction = Prediction::Sigmoid;
  bool has_score = true;  ///< not of more than two classes: nothing ranks their samples
};

/// What of a model metrics are made of.
struct EvalSubject {
  std::vector<EvalTask> tasks{EvalTask{}};
  std::vector<std::string> losses{""};  ///< names
  bool has_groups = false;              ///< rows have groups
};

/// The metrics that an evaluation reports. One of samples has a value a task. Of several tasks it
/// is called "<metric>_<task>", and "<metric>" is their mean (of what is made of positives and
/// negatives without regressions, where there are other tasks); of several losses
/// "<metric>_<loss>", and "<metric>" is that of their weighted sum.
class HCTR_API EvalMetrics {
 public:
  /// Metrics by name, each once and in the order of the catalogue. `devices`: of this process.
  /// Throws InvalidArgument for a name that is not in the catalogue, or when no task has what the
  /// metric is made of.
  EvalMetrics(const std::vector<std::string>& names, std::size_t devices,
              const EvalSubject& subject = {});

  /// A device's rows of task number `task`.
  void add(GPUResource& gpu, const EvalRows& rows, std::size_t task = 0);
  /// Mean losses of a batch: of the weighted sum, then, of several losses, of each.
  void add_batch(const std::vector<double>& losses, double samples);
  void add_batch(double loss, double samples) { add_batch(std::vector<double>{loss}, samples); }
  std::vector<std::pair<std::string, double>> take(ResourceManager& resources);

 private:
  /// One of the catalogue for everything that it has a value of.
  struct Reported {
    std::string name;
    bool of_batches = false;
    std::vector<std::string> parts;  ///< names of values
    std::vector<std::size_t> tasks;  ///< a part each, of one of samples
    std::vector<bool> of_mean;       ///< of each part: whether it counts
    std::vector<std::unique_ptr<IMetric>> metrics;
  };
  template <class Entry>
  Reported make(std::size_t devices, const EvalSubject& subject) const;

  std::vector<Reported> metrics_;
};

}  // namespace hugectr
