// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/shape.hpp"
#include "core/cpp/data/memory_format.hpp"
#include "core/cpp/model/session.hpp"

namespace hugectr {

class ForwardNetwork;
class NetworkGraph;
class Predictor;

/// Predictions and metrics of samples in memory by a session as it is: on all of its devices and
/// processes, between two steps of a training, which goes on afterwards as if nothing had been. It
/// has networks of its own; the session's evaluation, its tensors and its data are left alone.
///
/// Where the only device is the CPU it predicts as a Predictor does, without a reader and plans:
/// the size of a batch changes no bit there, so that few samples need not fill one up, unless a
/// layer looks at the batch as a whole.
///
/// One thread at a time, as all calls of the session. In a job of several processes all of them
/// make the same calls with the same samples, and all get the results of all samples.
class HCTR_API LivePredictor {
 public:
  /// batch_size: global, a multiple of the number of devices; with several devices at most the
  /// larger of the session's batch sizes, which its exchange buffers are made for.
  LivePredictor(Session& session, std::size_t batch_size);
  ~LivePredictor();
  LivePredictor(const LivePredictor&) = delete;
  LivePredictor& operator=(const LivePredictor&) = delete;

  /// As of a Predictor, in batches of the one size.
  std::vector<float> predict(std::shared_ptr<const MemoryData> samples, const std::string& output);
  /// Metrics by name of the catalogue, over samples with labels.
  std::vector<std::pair<std::string, double>> evaluate(std::shared_ptr<const MemoryData> samples,
                                                       const std::vector<std::string>& metrics);
  Shape sample_shape(const std::string& output) const;

 private:
  /// Looks the samples of each batch up, calls `forward` on every device, then `done`.
  void for_each_batch(std::shared_ptr<const MemoryData> samples, const InputLayout& layout,
                      const std::function<void(std::size_t local_id, Batch& batch)>& forward,
                      const std::function<void(const Batch& batch)>& done);
  std::vector<float> predict_on_devices(std::shared_ptr<const MemoryData> samples,
                                        const std::string& output);
  Predictor& predictor() const;
  void make_networks();
  void write_inputs(std::size_t local_id, const DeviceBatch& batch);
  /// Rows of a tensor of the whole batch, in the order of its samples.
  std::vector<float> gathered(const std::string& tensor, std::size_t width) const;
  /// Gives a device's network the weights of its samples: what fills the batch up has 0.
  void weigh(std::size_t id, const Batch& batch) const;
  /// Of the last batch: the weighted sum, then each where they are added up.
  std::vector<double> losses() const;
  const NetworkGraph& graph() const { return *graph_; }

  std::shared_ptr<SessionState> session_;
  SolverSpec solver_;  ///< the session's, with the batch size
  std::shared_ptr<const NetworkGraph> graph_;
  bool on_the_cpu_alone_;
  mutable std::unique_ptr<Predictor> predictor_;  ///< on the CPU alone, once it is asked for
  /// One a local device; on the CPU alone once metrics are asked for.
  std::vector<std::unique_ptr<ForwardNetwork>> networks_;
};

}  // namespace hugectr
