// SPDX-License-Identifier: Apache-2.0
#include "tests/cpp/embedding/table_run.hpp"

#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

namespace hugectr::test {

HostBatch random_batch(std::size_t samples, std::size_t slots, std::size_t max_nnz,
                       std::int64_t low, std::int64_t range, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  HostBatch batch;
  batch.row_offsets.push_back(0);
  for (std::size_t bucket = 0; bucket < samples * slots; ++bucket) {
    const std::size_t nnz = random() % (max_nnz + 1);
    for (std::size_t i = 0; i < nnz; ++i) {
      const auto place = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(range));
      batch.keys.push_back(i > 0 && random() % 8 == 0 ? batch.keys.back() : low + place);
    }
    batch.row_offsets.push_back(static_cast<std::uint32_t>(batch.keys.size()));
  }
  return batch;
}

std::vector<float> random_gradient(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> gradient(count);
  for (float& g : gradient) g = uniform(random);
  return gradient;
}

TableRun::TableRun(SparseEmbeddingHashParams params, std::size_t devices, std::uint64_t seed)
    : params_(std::move(params)) {
  std::vector<int> ids(devices);
  std::iota(ids.begin(), ids.end(), 0);
  resources_ = ResourceManager::create({ids}, seed);
  group_ = std::make_unique<LookupGroup>(std::vector{params_}, resources_);
}

TableRun::KeptBatch TableRun::keep(const HostBatch& batch) const {
  return {{batch.keys.begin(), batch.keys.end()},
          batch.keys,
          batch.row_offsets,
          (batch.row_offsets.size() - 1) / params_.slot_num};
}

void TableRun::plan(const HostBatch& batch, PlanSlot slot) {
  // The last batch of this slot may still be read by the compute streams.
  resources_->synchronize();
  KeptBatch& kept = batches_[static_cast<std::size_t>(slot)];
  kept = keep(batch);
  plan_kept(kept, slot);
}

void TableRun::plan_kept(KeptBatch& kept, PlanSlot slot) {
  resources_->for_each_device_planning([&](std::size_t id) {
    const DeviceId device = resources_->get_local_gpu(id).device();
    SparseTensor csr;
    csr.nnz = kept.keys64.size();
    csr.keys = params_.i64_keys ? make_ref(kept.keys64.data(), {csr.nnz}, device)
                                : make_ref(kept.keys32.data(), {csr.nnz}, device);
    csr.row_offsets = make_ref(kept.row_offsets.data(), {kept.row_offsets.size()}, device);
    group_->plan(id, {&csr, 1}, slot, slot != PlanSlot::Eval);
  });
}

std::vector<float> TableRun::train_overlapped(const std::vector<HostBatch>& batches,
                                              const std::vector<std::vector<float>>& gradients,
                                              float lr, std::chrono::microseconds lag) {
  const auto slot_of = [](std::size_t i) { return i % 2 ? PlanSlot::Train1 : PlanSlot::Train0; };
  std::vector<KeptBatch> kept;
  for (const HostBatch& batch : batches) kept.push_back(keep(batch));
  std::vector<std::vector<float>> outputs = gradients, inputs = gradients;
  std::vector<std::int64_t> steps(batches.size());
  plan_kept(kept[0], slot_of(0));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    steps[i] = static_cast<std::int64_t>(i) + 1;
    resources_->for_each_device([&](std::size_t id) {
      const DeviceId device = resources_->get_local_gpu(id).device();
      resources_->get_local_gpu(id).compute_stream().submit(
          [lag] { std::this_thread::sleep_for(lag); });
      const TensorRef output = on(id, outputs[i].data(), kept[i].samples, 0);
      const TensorRef gradient = on(id, inputs[i].data(), kept[i].samples, 0);
      group_->forward(id, slot_of(i), {&output, 1});
      group_->backward_and_update(
          id, slot_of(i), {&gradient, 1},
          {make_ref(&lr, {1}, device), make_ref(&steps[i], {1}, device), TensorRef{}});
    });
    if (i + 1 < kept.size()) plan_kept(kept[i + 1], slot_of(i + 1));
  }
  resources_->synchronize();
  std::vector<float> all;
  for (const auto& output : outputs) all.insert(all.end(), output.begin(), output.end());
  return all;
}

TensorRef TableRun::on(std::size_t local_id, float* data, std::size_t samples, std::size_t pad) {
  const std::size_t own = samples / resources_->get_local_gpu_count();
  const std::size_t stride = params_.slot_num * params_.embedding_vec_size + pad;
  TensorRef ref =
      make_ref(data + local_id * own * stride, {own, params_.slot_num, params_.embedding_vec_size},
               resources_->get_local_gpu(local_id).device());
  ref.row_stride = stride;
  return ref;
}

std::vector<float> TableRun::forward(PlanSlot slot, std::size_t pad, std::int64_t step) {
  const std::size_t samples = batches_[static_cast<std::size_t>(slot)].samples;
  const std::size_t width = params_.slot_num * params_.embedding_vec_size;
  constexpr float kUntouched = 12345.0f;
  std::vector<float> wide(samples * (width + pad), kUntouched);
  resources_->for_each_device([&](std::size_t id) {
    const TensorRef output = on(id, wide.data(), samples, pad);
    const TensorRef number = make_ref(&step, {1}, output.device);
    group_->forward(id, slot, {&output, 1}, step > 0 ? number : TensorRef{});
  });
  resources_->synchronize();
  std::vector<float> output;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const float* row = wide.data() + sample * (width + pad);
    output.insert(output.end(), row, row + width);
    for (std::size_t i = 0; i < pad; ++i) {
      if (row[width + i] != kUntouched) throw Error("forward wrote beyond its columns");
    }
  }
  return output;
}

void TableRun::update(PlanSlot slot, const std::vector<float>& gradient, float lr,
                      std::int64_t step, float unscale, std::size_t pad) {
  const std::size_t samples = batches_[static_cast<std::size_t>(slot)].samples;
  const std::size_t width = params_.slot_num * params_.embedding_vec_size;
  std::vector<float> wide(samples * (width + pad), 99.0f);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    std::copy_n(gradient.data() + sample * width, width, wide.data() + sample * (width + pad));
  }
  resources_->for_each_device([&](std::size_t id) {
    const DeviceId device = resources_->get_local_gpu(id).device();
    const TensorRef part = on(id, wide.data(), samples, pad);
    group_->backward_and_update(id, slot, {&part, 1},
                                {make_ref(&lr, {1}, device), make_ref(&step, {1}, device),
                                 make_ref(&unscale, {1}, device)});
  });
  resources_->synchronize();
}

std::vector<float> TableRun::train(const HostBatch& batch, const std::vector<float>& gradient,
                                   float lr, std::int64_t step, float unscale) {
  const PlanSlot slot = step % 2 ? PlanSlot::Train0 : PlanSlot::Train1;
  plan(batch, slot);
  std::vector<float> output = forward(slot);
  update(slot, gradient, lr, step, unscale);
  return output;
}

std::vector<float> TableRun::evaluate(const HostBatch& batch) {
  plan(batch, PlanSlot::Eval);
  return forward(PlanSlot::Eval);
}

double relative_distance(const std::vector<float>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) throw Error(concat("sizes ", a.size(), " and ", b.size(), " differ"));
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference) / (norm > 0 ? std::sqrt(norm) : 1.0);
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  return relative_distance(a, std::vector<double>(b.begin(), b.end()));
}

}  // namespace hugectr::test
