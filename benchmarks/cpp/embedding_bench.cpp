// SPDX-License-Identifier: Apache-2.0
// Time of the stages of one table: plan (look up, insert, sort), forward, backward + update.
//
//   embedding_bench [batch] [slots] [rows a slot] [d] [devices] [keys a slot] [optimizer: adam|sgd]
//
// Prints one JSON object; times are medians in milliseconds over 64 distinct batches, all of whose
// keys are in the table.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/embedding/lookup/lookup_group.hpp"

using namespace hugectr;  // NOLINT

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::size_t batch = number(1, 4096), slots = number(2, 26), rows = number(3, 100000);
  const std::size_t d = number(4, 16), devices = number(5, 1), hotness = number(6, 1);
  const std::string optimizer = argc > 7 ? argv[7] : "adam";
  constexpr std::size_t kBatches = 64;

  std::vector<int> ids(devices);
  std::iota(ids.begin(), ids.end(), 0);
  auto resources = ResourceManager::create({ids}, 1);
  SparseEmbeddingHashParams params;
  params.name = "bench";
  params.slot_num = slots;
  params.embedding_vec_size = d;
  params.i64_keys = true;
  params.opt_params.optimizer = optimizer == "sgd" ? Optimizer::SGD : Optimizer::Adam;
  params.opt_params.update_type = Update::Local;
  params.batch_size = params.batch_size_eval = batch;
  LookupGroup group({params}, resources);

  BufferBag all;
  all.vec_size = d;
  all.keys.resize(rows * slots);
  std::iota(all.keys.begin(), all.keys.end(), 0);
  std::mt19937_64 random(1);
  std::shuffle(all.keys.begin(), all.keys.end(), random);
  all.vectors.assign(rows * slots * d, 0.01f);
  group.table(0).load(all);
  all = {};

  const std::size_t n = batch * slots * hotness;
  std::vector<std::vector<std::int64_t>> keys(kBatches, std::vector<std::int64_t>(n));
  std::vector<std::uint32_t> row_offsets(batch * slots + 1);
  for (std::size_t b = 0; b <= batch * slots; ++b) {
    row_offsets[b] = static_cast<std::uint32_t>(b * hotness);
  }
  for (auto& list : keys) {
    for (std::size_t i = 0; i < n; ++i) {
      list[i] = static_cast<std::int64_t>(i / hotness % slots * rows + random() % rows);
    }
  }
  std::vector<float> vectors(batch * slots * d, 0.5f);
  float lr = 0.001f;
  std::int64_t step = 1;
  const auto part = [&](std::size_t id) {
    const std::size_t own = batch / devices;
    return make_ref(vectors.data() + id * own * slots * d, {own, slots, d},
                    resources->get_local_gpu(id).device());
  };

  std::vector<double> plan, forward, update;
  for (std::size_t i = 0; i < 2 * kBatches; ++i) {
    auto& list = keys[i % kBatches];
    const PlanSlot slot = i % 2 ? PlanSlot::Train1 : PlanSlot::Train0;
    const auto t0 = Clock::now();
    resources->for_each_device_planning([&](std::size_t id) {
      const DeviceId device = resources->get_local_gpu(id).device();
      const SparseTensor csr{make_ref(list.data(), {n}, device),
                             make_ref(row_offsets.data(), {row_offsets.size()}, device), n};
      group.plan(id, {&csr, 1}, slot, true);
    });
    const auto t1 = Clock::now();
    resources->for_each_device([&](std::size_t id) {
      const TensorRef output = part(id);
      group.forward(id, slot, {&output, 1});
    });
    resources->synchronize();
    const auto t2 = Clock::now();
    resources->for_each_device([&](std::size_t id) {
      const DeviceId device = resources->get_local_gpu(id).device();
      const TensorRef gradient = part(id);
      group.backward_and_update(
          id, slot, {&gradient, 1},
          {make_ref(&lr, {1}, device), make_ref(&step, {1}, device), TensorRef{}});
    });
    resources->synchronize();
    const auto t3 = Clock::now();
    ++step;
    if (i < kBatches) continue;  // the first round touches every page
    const auto ms = [](auto from, auto to) {
      return std::chrono::duration<double, std::milli>(to - from).count();
    };
    plan.push_back(ms(t0, t1));
    forward.push_back(ms(t1, t2));
    update.push_back(ms(t2, t3));
  }
  std::printf(
      "{\"batch\": %zu, \"slots\": %zu, \"rows\": %zu, \"d\": %zu, \"devices\": %zu, "
      "\"keys_per_slot\": %zu, \"optimizer\": \"%s\", \"threads\": %zu, \"plan_ms\": %.3f, "
      "\"forward_ms\": %.3f, \"update_ms\": %.3f}\n",
      batch, slots, rows * slots, d, devices, hotness, optimizer.c_str(), resources->pool().size(),
      median(plan), median(forward), median(update));
  return 0;
}
