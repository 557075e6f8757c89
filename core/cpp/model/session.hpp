// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/data/make_source.hpp"
#include "core/cpp/device/device_map.hpp"
#include "core/cpp/device/op_timeline.hpp"
#include "core/cpp/device/tensor_view.hpp"
#include "core/cpp/embedding/embedding_params.hpp"
#include "core/cpp/embedding/table/row_bag.hpp"
#include "core/cpp/layers/layer.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/model/learning_rate.hpp"
#include "core/cpp/model/loss_scaling_state.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {

/// Settings of a training run (hugectr.CreateSolver). Batch sizes are global.
struct SolverSpec {
  std::string model_name;
  std::uint64_t seed = 0;  ///< 0 draws one
  std::size_t batchsize = 2048;
  std::size_t batchsize_eval = 2048;
  std::size_t max_eval_batches = 100;
  std::vector<std::vector<int>> vvgpu{{0}};
  DeviceType device = DeviceType::Cpu;
  DeviceLayout device_layout = DeviceLayout::LocalFirst;
  bool repeat_dataset = true;
  bool drop_incomplete_batch = false;
  LearningRateParams lr;
  bool i64_input_key = false;
  std::vector<std::string> metrics{"AUC"};  ///< names in the catalogue of core/cpp/metrics
  /// Float16 or BFloat16: mixed precision. The dense network computes in 16 bits; weights, tables,
  /// their gradients and optimizer states stay float32, and so do all files.
  TensorScalarType compute_dtype = TensorScalarType::Float32;
  double loss_scale = 0.0;  ///< float16: factor of all gradients; 0 for none, or for dynamic: the
                            ///< first one in common use
  bool dynamic_loss_scale = false;   ///< float16: halved on overflow, doubled after 2000 good steps
  bool tf32 = false;                 ///< float32 products may round their factors to tf32
  bool use_algorithm_search = true;  ///< time the products' algorithms that give equal bits
  bool use_cuda_graph = true;        ///< submit the dense part of a step as a whole where possible
};

struct InputSpec {
  std::string label_name, dense_name;
  std::size_t label_dim = 1, dense_dim = 0;
  std::vector<SparseInput> sparse;
};

struct SparseEmbeddingSpec {
  EmbeddingType type = EmbeddingType::DistributedSlotSparseEmbeddingHash;
  std::size_t workspace_size_per_gpu_in_mb = 0;  ///< weights only; 0 = no bound
  std::size_t max_vocabulary_size_per_gpu = 0;   ///< rows; used when the workspace is 0
  std::size_t embedding_vec_size = 0;
  Combiner combiner = Combiner::Sum;
  ExchangeType exchange = ExchangeType::Auto;
  std::string name, bottom;
  std::vector<std::size_t> slot_size_array;
  std::optional<OptParams> opt_params;  ///< none: the model's
};

struct ModelSpec {
  InputSpec input;
  std::vector<SparseEmbeddingSpec> embeddings;
  std::vector<DenseLayerSpec> layers;  ///< in add order; the last is the loss
  OptParams opt_params;
};

/// A row of Model.summary().
struct LayerSummary {
  std::string type;
  std::vector<std::string> bottoms, tops;
  std::vector<Shape> top_shapes;  ///< dimension 0 is the local batch
};

/// TableRows as views.
struct TableViews {
  TensorView keys, slots, vectors;
  std::vector<TensorView> states;
};

/// A compiled model on its devices: the three-stage pipeline and everything a step does.
/// One thread at a time may call it, none in a forked child of the process that made it.
///
/// In a job of several processes each has a Session of its own, made from the same settings, and
/// makes the same calls in the same order: all but those that only look at this process's devices
/// (memory, views, timing, table_stats) are collective. Tables and tensors that are read out are
/// the local devices' part; losses and metrics are those of the job. An error of one process ends
/// the others' calls with a CommError that carries its text; the job then starts anew from its last
/// checkpoint.
class HCTR_API Session {
 public:
  /// `processes` connects the processes of the job; null: this is the only one.
  Session(const SolverSpec& solver, const ReaderSpec& reader, const ModelSpec& model,
          std::shared_ptr<IProcessGroup> processes = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start_data_reading();
  /// Ends the threads that read, for a program that ends while the model is still there. Training
  /// and evaluation are refused from then on, until a source is set. Collective.
  void stop_data_reading();
  /// The program ends. Waits for calls of other threads, for so many seconds, then ends the threads
  /// that read and all work on the devices; calls are refused from now on. Never throws.
  /// Collective, as stop_data_reading(); once.
  void end(double seconds) noexcept;
  /// One step. False at the end of the data (epoch mode), then nothing has trained. NonFiniteLoss
  /// within 20 steps after the loss was not finite (with loss scaling, after the first of several
  /// in a row), and at the end of the data; that call has trained nothing.
  bool train();
  /// One evaluation batch, added to the metrics. False at the end of the evaluation data.
  bool eval();
  /// Mean loss (regulariser included) of the last trained batch, also behind evaluations; waits for
  /// it.
  float get_current_loss();
  /// Throws NonFiniteLoss when the loss of a step so far, or a dense weight, is not finite: before
  /// something is saved that nobody can go on from. Waits for the steps.
  void check_loss();
  /// Metrics over all eval() calls since the last call of this; then starts anew.
  std::vector<std::pair<std::string, double>> get_eval_metrics();
  void set_source(const std::string& source);       ///< restarts the training data
  void set_eval_source(const std::string& source);  ///< restarts the evaluation data
  bool train_data_at_end() const;
  /// Behind the last batch that trained: where reading goes on.
  ReadPosition data_position() const;
  /// Goes on reading at a position of the same data and settings. Throws InvalidArgument when the
  /// data has no such place; reading then goes on where it was.
  void set_data_position(const ReadPosition& position);

  LearningRateScheduler& learning_rate_scheduler();
  void set_learning_rate(float lr);
  float learning_rate() const;  ///< of the next step
  /// Names of the embeddings, or "" for the dense network.
  void set_trainable(const std::string& embedding, bool trainable);

  // Parameters. The flat dense vectors are in file order (layers in add order).
  std::vector<float> dense_weights();
  void set_dense_weights(const std::vector<float>& values);
  std::vector<float> dense_optimizer_states();
  void set_dense_optimizer_states(const std::vector<float>& values);
  struct NonTrainableValues {
    std::string layer;         ///< first top of the BatchNorm
    std::vector<double> mean;  ///< 48 bits are kept
    std::vector<float> var;
  };
  std::vector<NonTrainableValues> non_trainables();
  void set_non_trainables(const std::vector<NonTrainableValues>& values);
  std::size_t num_embeddings() const;
  BufferBag dump_embedding(std::size_t index, bool with_states);
  void load_embedding(std::size_t index, const RowView& rows);
  // A dump in parts, marks of touched rows and owners, as in ShardedTable.
  RowOrder embedding_order(std::size_t index, RowMark since);
  void read_embedding(std::size_t index, const RowOrder& order, std::size_t begin, std::size_t end,
                      const RowValues& values);
  RowMark mark_embedding(std::size_t index);
  bool embedding_knows_since(std::size_t index, RowMark since) const;
  /// Numbers of each optimizer state of a row: as many as the vector has, or one.
  std::vector<std::size_t> embedding_state_widths(std::size_t index) const;
  bool embedding_has_last_step(std::size_t index) const;
  std::size_t embedding_vec_size(std::size_t index) const;
  bool embedding_has_slots(std::size_t index) const;
  /// What manifests call where its rows are.
  std::string embedding_placement(std::size_t index) const;
  /// The process that owns each row of a table.
  std::vector<std::uint32_t> row_processes(std::size_t index, const std::vector<std::int64_t>& keys,
                                           const std::vector<std::uint64_t>& slot_ids) const;
  /// Updates done so far (the t of Adam) and a way to continue from it.
  std::int64_t step() const;
  /// Forgets all rows and states of a table; a batch that was planned ahead is planned anew.
  void reset_embedding(std::size_t index);
  LossScalingState loss_scaling_state() const;
  void set_loss_scaling_state(const LossScalingState& state);
  /// Loss scaling: the scale of the next step (1 without), and how many steps were skipped because
  /// a gradient overflowed. A skipped step changes no weight, state or row; it counts as a step.
  float loss_scale() const;
  std::int64_t skipped_steps() const;
  void set_step(std::int64_t step);

  /// Content of a tensor after the last train() or eval(), all local devices one after the other;
  /// tensors of 16 bits are widened.
  std::vector<float> check_out_tensor(const std::string& name, bool train, Shape* shape);

  // Memory of one local device without a copy (session_views.cpp). A view keeps the whole model
  // alive, also after this object has gone. What it shows changes with every later step.
  /// A tensor as check_out_tensor() names it: that device's part of the batch.
  TensorView tensor_view(const std::string& name, bool train, std::size_t local_id);
  /// A dense parameter, float32: "<layer top>.<weight|bias|...>".
  TensorView weight_view(const std::string& name, std::size_t local_id);
  /// The optimizer's state number `state` of a dense parameter: m, v (Adam), the accumulator or the
  /// momentum; float32, of the parameter's shape.
  TensorView state_view(const std::string& name, std::size_t state, std::size_t local_id);
  std::vector<std::string> weight_names() const;
  /// Trained rows of a table. Rows never move: the view stays good while the table grows, but does
  /// not show the rows that come later. reset and load write other rows into the same memory.
  TableViews table_view(std::size_t index, std::size_t local_id);
  /// Gives a dense parameter these values (its shape, float32; on the host, or on a CUDA device for
  /// a model there) on every device; waits for it.
  void set_weight(const std::string& name, const TensorView& values);
  /// The model's next work waits for all that a stream of another library (NativeStream::handle)
  /// holds now: before a step overwrites what others still read, or reads what they wrote. With
  /// mixed precision, weights written through a view are rounded anew.
  void wait_for_stream(void* stream);

  std::vector<LayerSummary> summary() const;
  /// The dense layers as run, the automatic Slice layers included.
  const std::vector<DenseLayerSpec>& layers() const;
  std::vector<TableStats> table_stats() const;
  ReaderMetrics reader_metrics(bool train);
  /// Seconds that the first device spent in each stage since the last call, on its own clock: name,
  /// seconds. "idle" lies between steps; "plan" runs on a stream of its own beside the step;
  /// "wait_for_plan" is the time that train() waited for it. Waits for the steps submitted.
  std::vector<std::pair<std::string, double>> stage_seconds();
  /// Times every op of the first device from now on, or ends that. While it is on, steps are
  /// submitted op by op. With `alone` the next batch is planned when the step is done, so that ops
  /// of the two streams do not slow each other down.
  void set_profiling(bool on, bool alone = false);
  /// Pieces of the schedules that are replayed as a whole by now, on all local devices.
  std::size_t captured_pieces() const;
  /// The ops since the last call; empty when profiling is off.
  std::vector<OpTime> take_op_times();
  std::vector<MemoryReportEntry> memory_report() const;
  ResourceManager& resources();
  /// Ends this process's part in collectives that will not come about, because another process has
  /// failed: calls that wait throw CommError(reason). The only function for any thread at any time.
  void leave(const std::string& reason) noexcept;
  /// Whether leave() has done all of that.
  bool has_left() const noexcept { return left_; }

 private:
  std::atomic<bool> left_ = false;
  struct Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the views; forked children leave it alone
};

}  // namespace hugectr
