// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/serving/execution.hpp"

#include <algorithm>
#include <utility>

#include "core/cpp/device/caller_stream.hpp"
#include "core/cpp/device/float_values.hpp"
#include "core/cpp/model/sequence_lengths.hpp"
#include "core/cpp/ops/cast.hpp"

namespace hugectr {
namespace {

OpContext context_on(GPUResource& gpu, Stream& stream, ThreadPool& pool) {
  OpContext context = gpu.compute_context();
  context.stream = &stream;
  context.pool = &pool;
  context.communicator = nullptr;  // evaluation of one device has no collectives
  return context;
}

TensorRef array_on(void* data, TensorScalarType dtype, DeviceId device, Shape shape) {
  TensorRef ref;
  ref.data = data;
  ref.dtype = dtype;
  ref.device = device;
  ref.shape = std::move(shape);
  ref.row_stride = ref.row_size();
  return ref;
}

std::string owner_of(GPUResource& gpu, std::size_t batch) {
  return concat("predictor on ", to_string(gpu.device()), ", batch ", batch);
}

}  // namespace

Execution::Execution(SessionState& session, std::shared_ptr<const NetworkGraph> graph,
                     const InputLayout& layout, ThreadPool& pool)
    : session_(session),
      layout_(layout),
      batch_(graph->options().local_batch_eval),
      stream_(make_caller_stream(session.resources->get_local_gpu(0).device(), "predict")),
      context_(context_on(session.resources->get_local_gpu(0), *stream_, pool)),
      reads_host_(context_.device.type == DeviceType::Cpu),
      chunk_(
          make_csr_chunk(layout, batch_, session.resources->get_local_gpu(0).staging_resource())),
      network_(std::move(graph), *session.networks.front(), context_,
               session.resources->get_local_gpu(0).memory_resource(),
               owner_of(session.resources->get_local_gpu(0), batch_)),
      lookup_(*session.tables, session.resources->get_local_gpu(0),
              owner_of(session.resources->get_local_gpu(0), batch_)) {
  const auto memory = session.resources->get_local_gpu(0).memory_resource();
  dense_ = StagingArray(memory);
  csr_.resize(layout.sparse.size());
  weights_.assign(batch_, 1.0f);  // as the network has them
  for (std::size_t i = 0; i < layout.sparse.size(); ++i) {
    inputs_.push_back({StagingArray(memory), StagingArray(memory), {}});
  }
}

Execution::~Execution() {
  try {
    stream_->synchronize();          // what is queued uses the members
  } catch (const std::exception&) {  // whoever asked for it has been told
  }
}

void Execution::bring_keys(std::size_t input) {
  HostCsr& host = chunk_.sparse[input];
  DeviceInput& device = inputs_[input];
  const std::size_t offsets = batch_ * layout_.sparse[input].slot_num + 1;
  const auto type = layout_.i64_keys ? TensorScalarType::Int64 : TensorScalarType::UInt32;
  void* keys = host.keys.as<void>();
  void* row_offsets = host.row_offsets.as<void>();
  if (!reads_host_) {
    // Nothing is under way: run() has waited.
    device.keys.reserve(std::max<std::size_t>(host.nnz, 1) * size_of(type));
    device.row_offsets.reserve(offsets * sizeof(offset_t));
    stream_->copy(device.keys.as<void>(), keys, host.nnz * size_of(type));
    stream_->copy(device.row_offsets.as<void>(), row_offsets, offsets * sizeof(offset_t));
    keys = device.keys.as<void>();
    row_offsets = device.row_offsets.as<void>();
  }
  csr_[input].keys = array_on(keys, type, context_.device, {host.nnz});
  csr_[input].row_offsets =
      array_on(row_offsets, TensorScalarType::UInt32, context_.device, {offsets});
  csr_[input].nnz = host.nnz;
}

void Execution::bring(const MemoryView& data, std::size_t first, std::size_t count) {
  copy_to_chunk(data, layout_, first, count, batch_, chunk_);
  for (std::size_t i = 0; i < csr_.size(); ++i) bring_keys(i);
  write_lengths(context_, session_.model.input, csr_, 0,
                [&](const std::string& tensor) { return network_.tensor_or_none(tensor); });
  const std::string& name = session_.model.input.dense_name;
  if (layout_.dense_dim == 0 || !network_.has_tensor(name)) return;
  void* dense = chunk_.dense.as<void>();
  const std::size_t bytes = batch_ * layout_.dense_dim * sizeof(float);
  if (!reads_host_) {
    dense_.reserve(bytes);
    stream_->copy(dense_.as<void>(), dense, bytes);
    dense = dense_.as<void>();
  }
  hugectr::run(context_, Cast{.x = array_on(dense, TensorScalarType::Float32, context_.device,
                                            {batch_, layout_.dense_dim}),
                              .y = network_.tensor(name)});
}

void Execution::weigh() {
  const auto* weights = chunk_.weight.as<float>();
  if (std::equal(weights_.begin(), weights_.end(), weights)) return;
  weights_.assign(weights, weights + batch_);
  const TensorRef to = network_.sample_weight();
  stream_->copy(to.data, weights, to.size_in_bytes());
}

void Execution::check_reserved(std::size_t first) const {
  const ModelTables& tables = *session_.tables;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const std::int64_t found = lookup_.first_reserved(t);
    if (found < 0) continue;
    const std::size_t row = row_of_key(tables.input_of(t), static_cast<std::size_t>(found));
    const std::size_t slots = tables[t].params().slot_num;
    tables[t].refuse_reserved(first + row / slots, row % slots);
  }
}

std::size_t Execution::row_of_key(const TableInput& input, std::size_t key) const {
  std::size_t row = 0, before = 0;  // keys of the rows before
  for (std::size_t sample = 0; sample < batch_; ++sample) {
    for (const TableInput::Part& part : input.parts) {
      const offset_t* offsets = chunk_.sparse[part.input].row_offsets.as<offset_t>();
      offsets += sample * part.slots;
      for (std::size_t slot = 0; slot < part.slots; ++slot, ++row) {
        before += offsets[slot + 1] - offsets[slot];
        if (key < before) return row;
      }
    }
  }
  return row;
}

Shape Execution::shape_of(const std::string& tensor) const {
  return sample_tensor(network_, tensor).shape;
}

void Execution::run(const MemoryView& data, std::size_t first, std::size_t count,
                    const std::string& tensor, float* out) {
  SampleTensor wanted = sample_tensor(network_, tensor);
  bring(data, first, count);
  weigh();
  lookup_.run(context_, csr_, [this](std::size_t table) {
    return network_.tensor((*session_.tables)[table].params().top);
  });
  network_.forward();
  wanted.ref.shape[0] = wanted.ref.shape[0] / batch_ * count;
  const std::vector<float> values = float_values(*stream_, wanted.ref);  // waits
  check_reserved(first);
  std::copy(values.begin(), values.end(), out);
}

SampleTensor sample_tensor(const ForwardNetwork& network, const std::string& name) {
  const std::size_t batch = network.graph().options().local_batch_eval;
  const bool internal =
      name.find('@') != std::string::npos && name != network.graph().logits_name();
  const auto& parameters = network.graph().parameters();
  const bool of_samples = !internal && std::ranges::none_of(parameters, [&](const Parameter& p) {
    return p.name == name;
  });
  HCTR_CHECK(of_samples, "output '", name,
             "' has no value a sample: name a tensor between two layers, \"probability\" or "
             "\"logit\"");
  SampleTensor found{network.tensor(name), 0, {}};
  HCTR_CHECK(!found.ref.shape.empty() && found.ref.shape[0] % batch == 0, "output '", name,
             "' has shape ", to_string(found.ref.shape), ", which is no number of rows a sample");
  const std::size_t rows = found.ref.shape[0] / batch;
  found.shape.assign(found.ref.shape.begin() + 1, found.ref.shape.end());
  if (rows > 1 || found.shape.empty()) found.shape.insert(found.shape.begin(), rows);
  found.width = num_elements(found.shape);
  return found;
}

}  // namespace hugectr
