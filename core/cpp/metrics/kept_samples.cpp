// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/metrics/kept_samples.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cpp/ops/cast.hpp"

namespace hugectr {
namespace {

/// Samples of the first block; each further one has room for twice as many as the one before.
constexpr std::size_t kFirstBlock = 65536;

/// The values of all processes, one after the other.
void gather_processes(IProcessGroup& processes, std::vector<float>& values) {
  const auto* const bytes = reinterpret_cast<const char*>(values.data());
  const auto all = processes.all_gather_any({bytes, bytes + values.size() * sizeof(float)});
  values.clear();
  for (const std::vector<char>& part : all) {
    const std::size_t first = values.size();
    values.resize(first + part.size() / sizeof(float));
    if (!part.empty()) std::memcpy(values.data() + first, part.data(), part.size());
  }
}

}  // namespace

TensorRef KeptSamples::Block::part(std::size_t k, std::size_t first, std::size_t count) const {
  TensorRef ref = values.ref();
  ref.data = ref.ptr<float>() + k * capacity() + first;
  ref.shape = {count};
  ref.row_stride = 1;
  return ref;
}

SampleArrays KeptSamples::Block::arrays() const {
  SampleArrays arrays{part(0, 0, used), part(1, 0, used), part(2, 0, used)};
  if (values.get_dimensions()[0] > 3) arrays.groups = part(3, 0, used);
  return arrays;
}

KeptSamples::Block KeptSamples::make_block(GPUResource& gpu, std::size_t capacity) const {
  return {.values = metric_tensor<float>(gpu, {arrays_, capacity}, "samples")};
}

void KeptSamples::add(GPUResource& gpu, const EvalRows& rows) {
  std::vector<Block>& blocks = of_device_[gpu.get_local_id()];
  const std::size_t count = rows.scores.rows();
  if (blocks.empty() || blocks.back().capacity() - blocks.back().used < count) {
    const std::size_t last = blocks.empty() ? kFirstBlock / 2 : blocks.back().capacity();
    blocks.push_back(make_block(gpu, std::max(2 * last, count)));
  }
  Block& block = blocks.back();
  const OpContext context = gpu.compute_context();
  const TensorRef from[] = {rows.scores, rows.labels, rows.weights, rows.groups};
  for (std::size_t k = 0; k < arrays_; ++k) {
    TensorRef to = block.part(k, block.used, count);
    to.shape = from[k].shape;
    run(context, Cast{.x = from[k], .y = to});
  }
  block.used += count;
}

void KeptSamples::join_blocks(GPUResource& gpu) {
  std::vector<Block>& blocks = of_device_.front();
  if (blocks.size() < 2) return;
  std::size_t capacity = 0;
  for (const Block& block : blocks) capacity += block.capacity();
  Block whole = make_block(gpu, capacity);
  Stream& stream = gpu.compute_stream();
  for (const Block& block : blocks) {
    for (std::size_t k = 0; k < arrays_; ++k) {
      const TensorRef from = block.part(k, 0, block.used);
      stream.copy(whole.part(k, whole.used, block.used).data, from.data, from.size_in_bytes());
    }
    whole.used += block.used;
  }
  stream.synchronize();
  blocks.clear();
  blocks.push_back(std::move(whole));
}

KeptSamples::HostArrays KeptSamples::on_host(ResourceManager& resources) const {
  HostArrays host(arrays_);
  for (std::size_t id = 0; id < of_device_.size(); ++id) {
    Stream& stream = resources.get_local_gpu(id).compute_stream();
    for (const Block& block : of_device_[id]) {
      for (std::size_t k = 0; k < arrays_; ++k) {
        const std::size_t first = host[k].size();
        host[k].resize(first + block.used);
        const TensorRef from = block.part(k, 0, block.used);
        stream.copy(host[k].data() + first, from.data, from.size_in_bytes());
        stream.synchronize();  // before `host` grows again
      }
    }
  }
  if (resources.processes()) {
    for (std::vector<float>& values : host) gather_processes(*resources.processes(), values);
  }
  return host;
}

SampleArrays KeptSamples::gather(ResourceManager& resources) {
  GPUResource& gpu = resources.get_local_gpu(0);
  if (of_device_.size() == 1 && !resources.processes()) {
    join_blocks(gpu);
    return of_device_[0].empty() ? SampleArrays{} : of_device_[0].front().arrays();
  }
  const HostArrays host = on_host(resources);
  const std::size_t samples = host[0].size();
  if (samples == 0) return {};
  if (gathered_.capacity() < samples) {
    gathered_ = {};
    gathered_ = make_block(gpu, samples);
  }
  gathered_.used = samples;
  Stream& stream = gpu.compute_stream();
  for (std::size_t k = 0; k < arrays_; ++k) {
    const TensorRef to = gathered_.part(k, 0, samples);
    stream.copy(to.data, host[k].data(), to.size_in_bytes());
  }
  stream.synchronize();  // before `host` goes
  return gathered_.arrays();
}

void KeptSamples::clear() {
  for (std::vector<Block>& blocks : of_device_) {
    // The last one is the largest, and has room for more than half of as many samples.
    if (blocks.size() > 1) blocks.erase(blocks.begin(), blocks.end() - 1);
    if (!blocks.empty()) blocks.back().used = 0;
  }
  gathered_.used = 0;
}

}  // namespace hugectr
