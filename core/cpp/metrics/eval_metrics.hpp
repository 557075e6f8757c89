// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/metrics/eval_rows.hpp"

namespace hugectr {

/// A metric of the catalogue during an evaluation: what is added, merged over devices and
/// processes, and made one value.
class IMetric {
 public:
  virtual ~IMetric() = default;
  virtual const char* name() const = 0;
  /// One device's rows of a batch, in order of its compute stream; a thread a device.
  virtual void add(GPUResource&, const EvalRows&) {}
  /// The mean loss of a whole batch, over all devices of the job, and the samples it is the mean
  /// of.
  virtual void add_batch(double /*loss*/, double /*samples*/) {}
  /// The value of everything since the last call, on all devices of the job: the same in every
  /// process. Then starts anew. Collective; waits for the devices.
  virtual double take(ResourceManager& resources) = 0;
};

/// The metrics that an evaluation reports.
class HCTR_API EvalMetrics {
 public:
  /// Metrics by name, each once and in the order of the catalogue. `devices`: of this process.
  /// Throws InvalidArgument for a name that is not in the catalogue.
  EvalMetrics(const std::vector<std::string>& names, std::size_t devices);

  void add(GPUResource& gpu, const EvalRows& rows);
  void add_batch(double loss, double samples);
  std::vector<std::pair<std::string, double>> take(ResourceManager& resources);

 private:
  std::vector<std::unique_ptr<IMetric>> metrics_;
};

}  // namespace hugectr
