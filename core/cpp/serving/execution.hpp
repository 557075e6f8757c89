// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/csr_chunk.hpp"
#include "core/cpp/data/memory_format.hpp"
#include "core/cpp/model/forward_network.hpp"
#include "core/cpp/model/session_state.hpp"
#include "core/cpp/serving/read_lookup.hpp"

namespace hugectr {

/// One forward pass at a time, for batches of one size: inputs, activations and a stream of its
/// own, on the weights and tables of a session with one device. One thread at a time.
class Execution {
 public:
  /// `graph`: of the batch size. `pool`: whose threads share its loops.
  Execution(SessionState& session, std::shared_ptr<const NetworkGraph> graph,
            const InputLayout& layout, ThreadPool& pool);
  ~Execution();

  std::size_t batch() const { return batch_; }
  Shape shape_of(const std::string& tensor) const;
  /// Values of a tensor for samples [first, first + count) of checked data, at most a batch of
  /// them, to `out`: count times its elements a sample. Waits.
  void run(const MemoryView& data, std::size_t first, std::size_t count, const std::string& tensor,
           float* out);

 private:
  /// The samples where the device has them.
  struct DeviceInput {
    StagingArray keys, row_offsets;  ///< without memory where the device reads the host's
    SparseTensor csr;
  };
  void bring(const MemoryView& data, std::size_t first, std::size_t count);
  void bring_keys(std::size_t input);
  /// Gives the network the samples' weights: what fills the batch up has 0.
  void weigh();
  /// Refuses a reserved key of the batch that begins with sample `first`.
  void check_reserved(std::size_t first) const;
  /// The row (sample * slots of the table + slot) that a key of a table's inputs is in.
  std::size_t row_of_key(const TableInput& input, std::size_t key) const;

  SessionState& session_;
  const InputLayout& layout_;
  const std::size_t batch_;
  std::unique_ptr<Stream> stream_;
  OpContext context_;
  bool reads_host_;  ///< what the host has written needs no copy
  CSRChunk chunk_;
  StagingArray dense_;
  std::vector<DeviceInput> inputs_;
  std::vector<SparseTensor> csr_;
  std::vector<float> weights_;  ///< what the network has
  ForwardNetwork network_;
  ReadLookup lookup_;
};

/// A tensor of the evaluation graph that has values of every sample of a batch, and how many of
/// them; InvalidArgument for another.
struct SampleTensor {
  TensorRef ref;
  std::size_t width;  ///< elements a sample
  Shape shape;        ///< of one sample
};
SampleTensor sample_tensor(const ForwardNetwork& network, const std::string& name);

}  // namespace hugectr
