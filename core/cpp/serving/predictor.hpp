// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/shape.hpp"
#include "core/cpp/data/memory_format.hpp"
#include "core/cpp/model/session.hpp"

namespace hugectr {

class Execution;
class NetworkGraph;
class RowSharing;

/// Predictions of a model whose weights and rows are there, as often and from as many threads as
/// wanted: the evaluation graph and look-ups that only read. No reader, no optimizer, nothing is
/// inserted; a key that the model has never trained reads zeros, as in evaluation.
///
/// Layers are built for a batch size, so there is a network for each of a few sizes, all of them on
/// the session's weights, running statistics and tables. A batch is filled up to the next size.
/// Whoever predicts takes an execution (activations, streams) of that size out of a pool, or has
/// one made, and puts it back: there are as many as threads have predicted at once. On the CPU a
/// prediction runs in the thread that asks for it; large ones take the session's thread pool too,
/// and single rows that follow one another closely where somebody helps (RowSharing).
///
/// With evaluation's batch size the numbers are evaluation's of the same samples in the same order,
/// bit for bit. On the CPU a sample's bits depend on that sample alone; on a GPU where in a batch
/// it is, and the batch's size, may change how matrix products round its last bit.
///
///   hugectr::Session session(solver, std::nullopt, model);   // model.trains = false
///   ... load weights and rows ...
///   const hugectr::Predictor predictor(session);
///   std::vector<float> probabilities = predictor.predict(samples);
class HCTR_API Predictor {
 public:
  /// What predict() gives without being told: sigmoid of the loss's input. And that input.
  static constexpr const char* kProbability = "probability";
  static constexpr const char* kLogit = "logit";

  /// Of a session with one device, in one process (InvalidArgument). It keeps what it needs of the
  /// session; while it predicts, nothing may change weights, statistics or rows.
  explicit Predictor(Session& session);
  explicit Predictor(std::shared_ptr<SessionState> session);
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  /// One output a sample, in the order of the samples; their labels are not looked at.
  ///
  /// output: kProbability, the predictions of all losses side by side; kLogit, their inputs; a
  /// loss, its predictions; or a tensor of the evaluation graph with a row, or several, a sample.
  /// batch_size: every batch has it, the last one is filled up; 0: batches of the solver's
  /// batchsize_eval, and fewer samples go by the next of the sizes. From any threads at once.
  /// Throws InvalidArgument for an output that is none and for samples that do not fit the model's
  /// Input, DataError for values that nothing can be computed with; both name the place.
  std::vector<float> predict(const MemoryView& samples, const std::string& output = kProbability,
                             std::size_t batch_size = 0) const;
  /// Shape of an output of one sample; (1) for a single value.
  Shape sample_shape(const std::string& output) const;

  /// Whether a prediction depends on the other samples of its batch (NetworkGraph::samples_meet):
  /// then all batches have the size that was asked for.
  bool samples_meet() const { return samples_meet_; }
  /// Networks are there for these sizes, and whatever sizes were asked for.
  static const std::vector<std::size_t>& sizes();
  /// Executions that there are now, at work or not.
  std::size_t executions() const;

 private:
  struct Lease;
  struct Served;
  struct Key {
    std::size_t batch;
    bool alone;  ///< its loops take no other thread
    auto operator<=>(const Key&) const = default;
  };
  std::unique_ptr<Execution> take(const Key& key) const;
  std::shared_ptr<const NetworkGraph> graph_of(std::size_t batch) const;
  /// What an output is made of, remembered from the first time it is asked for.
  const Served& served(const std::string& output) const;
  /// Where the size of a batch changes no bit: how many samples go through the network at once, so
  /// that every thread has some and what they become stays in cache; 0: all, or as asked for.
  std::size_t share_of(std::size_t samples, std::size_t batch) const;

  /// Whether parts of the single row that is predicted now are there for the pool's threads: where
  /// the call is the only one (callers side by side use the cores already), comes so soon after
  /// another that threads still wait awake, and RowSharing says so. May have a thread roused.
  bool shares_row() const;

  std::shared_ptr<SessionState> session_;
  InputLayout layout_;
  bool samples_meet_ = false;
  std::size_t least_ = 1;                   ///< samples of the smallest network there can be
  std::unique_ptr<ThreadPool> no_threads_;  ///< of loops that the calling thread does by itself
  std::unique_ptr<RowSharing> sharing_;     ///< of single rows that follow one another
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::shared_ptr<const NetworkGraph>> graphs_;
  mutable std::map<Key, std::vector<std::unique_ptr<Execution>>> idle_;
  mutable std::map<std::string, Served> served_;
  mutable std::size_t executions_ = 0;
  mutable std::atomic<std::chrono::steady_clock::duration> ended_at_{};  ///< the last prediction
};

}  // namespace hugectr
