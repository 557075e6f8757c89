// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/data_reader.hpp"

namespace hugectr {

struct SessionState;

/// Where the batches of a Session come from: its training and its evaluation data. A model that
/// does not train reads no training data, and one without an eval_source no evaluation data; calls
/// that need what is not there throw InvalidArgument.
class HCTR_API SessionReader {
 public:
  explicit SessionReader(SessionState& session);

  /// Starts the threads that read; train() and eval() do so themselves.
  void start();
  /// Ends them, for a program that ends while the model is still there. Training and evaluation are
  /// refused from then on, until a source is set. Collective.
  void stop();
  void set_source(const std::string& source);       ///< restarts the training data
  void set_eval_source(const std::string& source);  ///< restarts the evaluation data
  /// Whether the last train() found no more data.
  bool at_end() const;
  /// Whether the last eval() found no more data.
  bool eval_at_end() const;
  /// Samples of the last evaluation batch, over all devices and processes; those that fill it up
  /// are not counted. 0: there was none, or the data had ended.
  std::size_t eval_samples() const;
  /// Behind the last batch that trained: where reading goes on.
  ReadPosition position() const;
  /// Goes on reading at a position of the same data and settings. Throws InvalidArgument when the
  /// data has no such place; reading then goes on where it was.
  void set_position(const ReadPosition& position);
  /// Of the training or the evaluation data, since the last call.
  ReaderMetrics metrics(bool train);

 private:
  SessionState& session_;
};

}  // namespace hugectr
