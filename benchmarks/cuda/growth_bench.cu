// SPDX-License-Identifier: Apache-2.0
// A table that grows while it trains, on one GPU.
//
//   growth_bench [rows at the end, millions: 64] [d: 128] [new keys a step, of 1000: 125]
//                [1: wait for plan, forward and update by themselves]
//
// From 1 M rows on; 65,536 samples with 26 keys each a step, some of them new, SGD. A step is plan,
// forward, backward and update, one after the other, and a wait. Prints one JSON object: the median
// and the slowest step, medians of the parts if each is waited for, the least free memory that
// cudaMemGetInfo reported after a step against what the rows and the index take, and rows whose
// content is not their first one plus their updates: all rows are looked at.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "benchmarks/cuda/device_arrays.hpp"
#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/ops/embedding_init.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

using namespace hugectr;         // NOLINT
using namespace hugectr::bench;  // NOLINT

namespace {

constexpr std::size_t kSamples = 65536, kSlots = 26, kKeys = kSamples * kSlots;
constexpr std::uint64_t kSeed = 11;
constexpr float kLr = 0.015625f;
constexpr unsigned kBlocks = 1056, kThreads = 256;

/// Loop over n items by all threads of a grid.
template <class Body>
__device__ void each(std::size_t n, const Body& body) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    body(i);
  }
}

__device__ std::int64_t nth_key(std::uint64_t number) {
  return static_cast<std::int64_t>(hash_key(number, 9) >> 1);
}

// The first `fresh` keys are new; the others are any of those before, `known` of them.
__global__ void step_keys(std::int64_t* keys, std::uint32_t* occurrences, std::size_t fresh,
                          std::uint64_t known, std::uint64_t step) {
  each(kKeys, [=](std::size_t i) {
    const std::uint64_t number =
        i < fresh ? known + i : hash_key(i + (step << 32), 4) % (known == 0 ? 1 : known);
    keys[i] = nth_key(number);
    atomicAdd(occurrences + number, 1u);
  });
}

__global__ void numbered_keys(std::int64_t* keys, std::uint64_t first, std::uint64_t count) {
  each(kKeys, [=](std::size_t i) { keys[i] = nth_key(first + i % count); });
}

__global__ void fill(float* to, std::size_t n, float value) {
  each(n, [=](std::size_t i) { to[i] = value; });
}

__global__ void offsets_of_one(std::uint32_t* offsets) {
  each(kKeys + 1, [=](std::size_t i) { offsets[i] = static_cast<std::uint32_t>(i); });
}

// Rows that are not symmetric_float(initial_bits) - kLr * occurrences: one warp a row.
__global__ void count_lost(const std::int64_t* keys, const std::uint32_t* occurrences,
                           const float* vectors, std::size_t d, std::uint64_t first,
                           std::uint64_t count, unsigned long long* lost) {
  const std::size_t warps = std::size_t{gridDim.x} * blockDim.x / 32;
  const std::size_t lane = threadIdx.x % 32;
  for (std::size_t i = (blockIdx.x * std::size_t{blockDim.x} + threadIdx.x) / 32; i < count;
       i += warps) {
    const auto times = static_cast<float>(occurrences[first + i]);
    bool wrong = false;
    for (std::size_t c = lane; c < d; c += 32) {
      const Philox4 bits =
          initial_bits(kSeed, 0, 0, widen_key(keys[i]), static_cast<std::uint32_t>(c / 4));
      const float wanted = symmetric_float(bits.x[c % 4], 0.05f) - kLr * times;
      wrong |= !(fabsf(vectors[i * d + c] - wanted) <= 1e-6f * (1 + times));
    }
    if (__any_sync(0xFFFFFFFFu, wrong) && lane == 0) atomicAdd(lost, 1ull);
  }
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::size_t last = number(1, 64) * 1'000'000, d = number(2, 128);
  const std::size_t fresh = kKeys * number(3, 125) / 1000;
  const auto resources = ResourceManager::create({{0}}, kSeed, DeviceType::Cuda);
  GPUResource& gpu = resources->get_local_gpu(0);
  check(cudaSetDevice(0));
  Stream& stream = gpu.compute_stream();
  DeviceArrays array(gpu.memory_resource());
  const TensorRef keys = array(TensorScalarType::Int64, {2 * kKeys});
  const TensorRef offsets = array(TensorScalarType::UInt32, {kKeys + 1});
  const TensorRef output = array(TensorScalarType::Float32, {kSamples, kSlots, d});
  const TensorRef gradient = array(TensorScalarType::Float32, {kSamples, kSlots, d});
  const TensorRef occurrences = array(TensorScalarType::UInt32, {last + kKeys});
  const TensorRef lost = array(TensorScalarType::UInt64, {1});
  const TensorRef lr = array(TensorScalarType::Float32, {1});
  const TensorRef step_number = array(TensorScalarType::Int64, {1});
  stream.fill_zero(occurrences.data, occurrences.size_in_bytes());
  stream.fill_zero(lost.data, lost.size_in_bytes());
  const std::int64_t one = 1;
  stream.copy_scalars(lr.data, &kLr, sizeof kLr);
  stream.copy_scalars(step_number.data, &one, sizeof one);
  fill<<<kBlocks, kThreads, 0, native(stream)>>>(gradient.ptr<float>(), kKeys * d, 1.0f);
  offsets_of_one<<<kBlocks, kThreads, 0, native(stream)>>>(offsets.ptr<std::uint32_t>());
  stream.synchronize();
  const std::size_t free_before = free_bytes();

  SparseEmbeddingHashParams params;
  params.name = "growing";
  params.slot_num = kSlots;
  params.embedding_vec_size = d;
  params.i64_keys = true;
  params.opt_params.optimizer = Optimizer::SGD;
  params.batch_size = params.batch_size_eval = kSamples;
  LookupGroup group({params}, resources);
  const auto plan = [&](const SparseTensor& csr, PlanSlot slot) {
    group.plan(0, {&csr, 1}, slot, slot != PlanSlot::Eval);
  };

  std::size_t known = 0, least_free = free_before, places = 0;
  const bool parts = number(4, 0) == 1;
  struct Step {
    double ms, plan_ms, forward_ms;
    std::size_t rows;
    bool rehashed;
  };
  std::vector<Step> steps;
  for (std::size_t i = 0; known < last; ++i) {
    const std::size_t wanted = known == 0 ? 1'000'000 : fresh;
    const std::size_t more = std::min(wanted, last - known);
    const TensorRef batch = piece(keys, i % 2 * kKeys, kKeys);
    step_keys<<<kBlocks, kThreads, 0, native(stream)>>>(
        batch.ptr<std::int64_t>(), occurrences.ptr<std::uint32_t>(), more, known, i);
    stream.synchronize();
    const PlanSlot slot = i % 2 ? PlanSlot::Train1 : PlanSlot::Train0;
    const auto begin = std::chrono::steady_clock::now();
    const auto since = [&] {
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
          .count();
    };
    plan({batch, offsets, kKeys}, slot);
    if (parts) gpu.plan_stream().synchronize();
    const double planned = since();
    group.forward(0, slot, {&output, 1});
    if (parts) stream.synchronize();
    const double looked_up = since();
    group.backward_and_update(0, slot, {&gradient, 1}, {lr, step_number, {}});
    stream.synchronize();
    const double ms = since();
    known += more;
    const TableStats stats = group.table(0).stats();
    if (i >= 3)
      steps.push_back({ms, planned, looked_up - planned, known, stats.index_slots != places});
    places = stats.index_slots;
    least_free = std::min(least_free, free_bytes());
  }

  for (std::size_t first = 0; first < last; first += kKeys) {
    const std::size_t count = std::min(kKeys, last - first);
    numbered_keys<<<kBlocks, kThreads, 0, native(stream)>>>(keys.ptr<std::int64_t>(), first, count);
    stream.synchronize();
    plan({piece(keys, 0, kKeys), offsets, kKeys}, PlanSlot::Eval);
    group.forward(0, PlanSlot::Eval, {&output, 1});
    count_lost<<<kBlocks, kThreads, 0, native(stream)>>>(
        keys.ptr<std::int64_t>(), occurrences.ptr<std::uint32_t>(), output.ptr<float>(), d, first,
        count, reinterpret_cast<unsigned long long*>(lost.ptr<std::uint64_t>()));
    stream.synchronize();
  }
  std::uint64_t wrong = 0;
  stream.copy(&wrong, lost.data, sizeof wrong);
  stream.synchronize();

  const TableStats stats = group.table(0).stats();
  const std::size_t content =
      last * (d * sizeof(float) + sizeof(std::int64_t)) + stats.index_slots * sizeof(HashPlace);
  const std::size_t peak = free_before - least_free;
  std::vector<Step> order = steps;
  std::sort(order.begin(), order.end(), [](const Step& a, const Step& b) { return a.ms < b.ms; });
  const double median = order[order.size() / 2].ms;
  const auto median_of = [&](const auto& part) {
    std::vector<double> all;
    for (const Step& step : steps) all.push_back(part(step));
    std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
    return all[all.size() / 2];
  };
  const double plan_ms = median_of([](const Step& step) { return step.plan_ms; });
  const double forward_ms = median_of([](const Step& step) { return step.forward_ms; });
  const double update_ms =
      median_of([](const Step& step) { return step.ms - step.plan_ms - step.forward_ms; });
  std::printf(
      "{\"gpu\": \"%s\", \"d\": %zu, \"steps\": %zu, \"new_keys_a_step\": %zu, \"rows\": %zu, "
      "\"places\": %zu, \"parts_waited_for\": %s, \"plan_ms\": %.3f, \"forward_ms\": %.3f, "
      "\"update_ms\": %.3f, \"median_ms\": %.3f, \"slowest_ms\": %.3f, \"slowest_by_median\": "
      "%.2f, "
      "\"rows_and_index_bytes\": %zu, \"peak_bytes\": %zu, \"peak_by_content\": %.4f, "
      "\"table_bytes\": %zu, \"rows_lost\": %llu, \"slow_steps\": [",
      DeviceBackend::get(DeviceType::Cuda).device_name(0).c_str(), d, steps.size(), fresh,
      stats.rows, stats.index_slots, parts ? "true" : "false", plan_ms, forward_ms, update_ms,
      median, order.back().ms, order.back().ms / median, content, peak,
      static_cast<double>(peak) / static_cast<double>(content), stats.bytes,
      static_cast<unsigned long long>(wrong));
  for (std::size_t k = 0; k < 8 && k < order.size(); ++k) {
    const Step& slow = order[order.size() - 1 - k];
    std::printf("%s{\"ms\": %.3f, \"plan_ms\": %.3f, \"rows\": %zu, \"index_grew\": %s}",
                k ? ", " : "", slow.ms, slow.plan_ms, slow.rows, slow.rehashed ? "true" : "false");
  }
  std::printf("]}\n");
  resources->synchronize();
  return wrong == 0 ? 0 : 1;
}
