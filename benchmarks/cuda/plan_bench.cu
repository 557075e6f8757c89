// SPDX-License-Identifier: Apache-2.0
// Time of the lookup plan of a batch on one GPU: whole, and op by op.
//
//   plan_bench [keys a slot: 1] [batches: 64]
//
// 65,536 samples, 26 slots of 1 M keys each (int64, power law with alpha 1.2), all of them in the
// table. `plan` is LookupGroup::plan, once with the host waiting for the GPU after it (what it
// takes when nothing overlaps) and as the GPU's own time between its first and last work, a pause
// for the host's look at the counts included. The ops are those of the plan, one after the other
// over the same batches. Prints a JSON line a case.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "benchmarks/cuda/device_arrays.hpp"
#include "core/cpp/embedding/lookup/lookup_group.hpp"
#include "core/cpp/embedding/table/hash_table.hpp"
#include "core/cpp/ops/expand_buckets.hpp"
#include "core/cpp/ops/lookup_sort.hpp"

using namespace hugectr;         // NOLINT
using namespace hugectr::bench;  // NOLINT

namespace {

constexpr std::size_t kSamples = 65536, kSlots = 26, kRowsPerSlot = 1'000'000;
constexpr std::size_t kBuckets = kSamples * kSlots, kRows = kSlots * kRowsPerSlot;
constexpr std::size_t kDim = 4;  // the plan does not read rows
constexpr unsigned kBlocks = 1056, kThreads = 256;

// Key i of a batch: a power law over the keys of its slot.
__global__ void power_law_keys(std::int64_t* keys, std::size_t n, std::size_t hotness,
                               std::uint64_t seed) {
  const double alpha = 1.2, top = pow(static_cast<double>(kRowsPerSlot), 1 - alpha) - 1;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const std::uint64_t bits = hash_key(i + (seed << 32), 3);
    const double uniform = static_cast<double>(bits >> 11) * 0x1.0p-53;
    const auto rank = static_cast<std::size_t>(pow(1 + uniform * top, 1 / (1 - alpha))) - 1;
    const std::size_t key = rank < kRowsPerSlot ? rank : kRowsPerSlot - 1;
    keys[i] = static_cast<std::int64_t>(i / hotness % kSlots * kRowsPerSlot + key);
  }
}

// Every key of the table once in kRows, far from its neighbours: the factor has no divisor of
// kRows.
__global__ void all_keys(std::int64_t* keys, std::size_t n, std::size_t first) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    keys[i] = static_cast<std::int64_t>((first + i) * 7368787 % kRows);
  }
}

__global__ void even_offsets(std::uint32_t* offsets, std::size_t buckets, std::uint32_t hotness) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i <= buckets;
       i += std::size_t{gridDim.x} * blockDim.x) {
    offsets[i] = static_cast<std::uint32_t>(i) * hotness;
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t hotness = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::size_t batches = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 64;
  const std::size_t n = kBuckets * hotness;
  const auto resources = ResourceManager::create({{0}}, 1, DeviceType::Cuda);
  GPUResource& gpu = resources->get_local_gpu(0);
  check(cudaSetDevice(0));
  Stream& stream = gpu.plan_stream();
  DeviceArrays array(gpu.memory_resource());
  StreamClock clock;

  SparseEmbeddingHashParams params;
  params.name = "bench";
  params.slot_num = kSlots;
  params.embedding_vec_size = kDim;
  params.i64_keys = true;
  params.opt_params.optimizer = Optimizer::SGD;
  params.batch_size = params.batch_size_eval = kSamples;
  LookupGroup group({params}, resources);
  group.table(0).freeze();  // training then only makes rows known

  const TensorRef keys = array(TensorScalarType::Int64, {batches * n});
  const TensorRef offsets = array(TensorScalarType::UInt32, {kBuckets + 1});
  const TensorRef vectors = array(TensorScalarType::Float32, {kSamples, kSlots, kDim});
  const TensorRef lr = array(TensorScalarType::Float32, {1});
  const TensorRef step = array(TensorScalarType::Int64, {1});
  const auto plan = [&](const TensorRef& batch, std::size_t i) {
    const PlanSlot slot = i % 2 ? PlanSlot::Train1 : PlanSlot::Train0;
    const SparseTensor csr{batch, offsets, n};
    group.plan(0, {&csr, 1}, slot, true);
    return slot;
  };
  const auto train = [&](PlanSlot slot) {
    group.backward_and_update(0, slot, {&vectors, 1}, {lr, step, {}});
    resources->synchronize();
  };
  even_offsets<<<kBlocks, kThreads, 0, native(stream)>>>(offsets.ptr<std::uint32_t>(), kBuckets,
                                                         static_cast<std::uint32_t>(hotness));
  for (std::size_t first = 0; first < kRows; first += n) {
    all_keys<<<kBlocks, kThreads, 0, native(stream)>>>(keys.ptr<std::int64_t>(), n, first);
    train(plan(piece(keys, 0, n), first / n));
  }
  for (std::size_t i = 0; i < batches; ++i) {
    power_law_keys<<<kBlocks, kThreads, 0, native(stream)>>>(keys.ptr<std::int64_t>() + i * n, n,
                                                             hotness, i);
  }
  stream.synchronize();

  std::vector<double> wall, on_gpu, call;
  for (std::size_t i = 0; i < batches; ++i) {
    PlanSlot slot{};
    double called = 0;
    const auto begin = std::chrono::steady_clock::now();
    const auto since = [&] {
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
          .count();
    };
    on_gpu.push_back(clock(stream, [&] {
      slot = plan(piece(keys, i * n, n), i);
      called = since();
    }));
    wall.push_back(since());
    call.push_back(called);
    train(slot);
  }
  const TableStats stats = group.table(0).stats();
  std::printf(
      "{\"gpu\": \"%s\", \"keys\": %zu, \"rows\": %zu, \"places\": %zu}\n"
      "{\"case\": \"plan\", \"keys\": %zu, \"gpu_ms\": %.4f, \"wall_ms\": %.4f, "
      "\"call_ms\": %.4f, \"slowest_wall_ms\": %.4f}\n",
      DeviceBackend::get(DeviceType::Cuda).device_name(0).c_str(), n, stats.rows, stats.index_slots,
      n, median(on_gpu), median(wall), median(call), *std::max_element(wall.begin(), wall.end()));

  // The ops by themselves, on a table of the same keys.
  const OpContext context = gpu.plan_context();
  HashTable index(gpu.memory_resource(), "index", TensorScalarType::Int64, kRows, false,
                  gpu.staging_resource());
  const TensorRef rows = array(TensorScalarType::UInt32, {n});
  const TensorRef buckets = array(TensorScalarType::UInt32, {n});
  const TensorRef every = array(TensorScalarType::Int64, {n});
  for (std::size_t first = 0; first < kRows; first += n) {
    all_keys<<<kBlocks, kThreads, 0, native(stream)>>>(every.ptr<std::int64_t>(), n, first);
    index.get_insert(context, every, {}, {}, rows);
  }
  const TensorRef sorted = array(TensorScalarType::UInt32, {n});
  const TensorRef unique = array(TensorScalarType::UInt32, {n});
  const TensorRef run_offsets = array(TensorScalarType::UInt32, {n + 1});
  const TensorRef run_count = array(TensorScalarType::Int64, {1});
  const TensorRef scratch = array(TensorScalarType::UInt64, {2 * n});
  const auto timed = [&](const char* name, double bytes, const auto& body) {
    std::vector<double> times;
    body(0);
    for (std::size_t i = 0; i < batches; ++i) times.push_back(clock(stream, [&] { body(i); }));
    std::printf("{\"case\": \"%s\", \"keys\": %zu, \"ms\": %.4f, \"floor_MB\": %.1f}\n", name, n,
                median(times), bytes / 1e6);
  };
  const auto count = static_cast<double>(n);
  timed("expand_buckets", 4.0 * kBuckets + 4 * count, [&](std::size_t) {
    run(context, ExpandBuckets{.row_offsets = offsets, .buckets = buckets});
  });
  timed("get_insert", (8 + 4 + 64) * count,
        [&](std::size_t i) { index.get_insert(context, piece(keys, i * n, n), {}, {}, rows); });
  timed("lookup_sort", (4 * 16 + 4 + 12) * count, [&](std::size_t) {
    run(context, LookupSort{.rows = rows,
                            .buckets = buckets,
                            .sorted_buckets = sorted,
                            .unique_rows = unique,
                            .run_offsets = run_offsets,
                            .run_count = run_count,
                            .scratch = scratch,
                            .row_count = static_cast<std::int64_t>(index.size())});
  });
  std::int64_t runs = 0;
  stream.copy(&runs, run_count.data, sizeof runs);
  stream.synchronize();
  std::printf("{\"unique_rows\": %lld, \"table_rows\": %zu}\n", static_cast<long long>(runs),
              index.size());
  resources->synchronize();
  return 0;
}
