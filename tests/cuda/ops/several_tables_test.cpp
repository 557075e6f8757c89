// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <list>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "core/cpp/ops/embedding_reorder.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "core/cpp/ops/gather_rows.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/row_requests.hpp"
#include "core/cpp/ops/scatter_rows.hpp"
#include "tests/cuda/ops/several_on_both.hpp"

namespace hugectr {
namespace {

/// More tables than a launch takes, of unlike sizes, some of them empty.
constexpr std::size_t kTables = 150;

struct SeveralTables : GpuTest<1> {
  std::shared_ptr<ResourceManager> gpus, cpus;
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random{seed};
  std::list<std::vector<std::uint64_t>> memory;

  void SetUp() override {
    GpuTest<1>::SetUp();
    if (IsSkipped()) return;
    gpus = ResourceManager::create({{0}}, 1, DeviceType::Cuda);
    cpus = ResourceManager::create({{0}}, 1);
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << "drawn from seed " << seed << "\n";
  }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random() % n; }
  std::size_t size() { return below(5) == 0 ? 0 : below(below(9) == 0 ? 20000 : 300); }

  /// Memory of n elements, zero. It lasts as long as the test.
  template <class T>
  std::span<T> zeros(std::size_t n) {
    memory.emplace_back(n * sizeof(T) / 8 + 2);
    return {reinterpret_cast<T*>(memory.back().data()), n};
  }
  template <class T>
  TensorRef ref(std::span<T> values, Shape shape = {}) {
    return make_ref(values.data(), shape.empty() ? Shape{values.size()} : shape);
  }
  template <class T>
  TensorRef drawn(std::size_t n, std::uint64_t range) {
    const std::span<T> values = zeros<T>(n);
    for (T& value : values) value = static_cast<T>(random() % range);
    return ref(values);
  }
  /// Ascending numbers from `first` to `last`, n + 1 of them.
  std::span<std::uint32_t> offsets(std::size_t n, std::size_t first, std::size_t last) {
    const std::span<std::uint32_t> values = zeros<std::uint32_t>(n + 1);
    for (std::uint32_t& value : values) {
      value = static_cast<std::uint32_t>(first + below(last - first + 1));
    }
    values.front() = static_cast<std::uint32_t>(first);
    values.back() = static_cast<std::uint32_t>(last);
    std::ranges::sort(values);
    return values;
  }
  template <class Op>
  void expect_same(const std::vector<Op>& ops) {
    expect_same_of_several(gpus->get_local_gpu(0), cpus->get_local_gpu(0), ops);
  }

  template <class Key>
  FilterKeys filter(bool by_slot) {
    const std::size_t samples = size(), slots = 1 + below(6), devices = 1 + below(5);
    const std::size_t n = size() + samples, rank = below(devices);
    const std::size_t own_slots = by_slot ? slots_of_device(slots, rank, devices) : slots;
    FilterKeys op;
    op.keys = drawn<Key>(n, 1000);
    const std::size_t first = below(n + 1);
    op.row_offsets = ref(offsets(samples * slots, first, samples == 0 ? first : n));
    op.own_keys = ref(zeros<Key>(n));
    op.own_row_offsets = ref(zeros<std::uint32_t>(samples * own_slots + 1));
    if (below(2)) op.own_places = ref(zeros<std::uint32_t>(std::max<std::size_t>(n, 1)));
    if (!by_slot && below(3) == 0 && n > 0) {
      op.held = drawn<std::uint32_t>(n, 4);
      for (std::size_t i = 0; i < n; ++i) {
        if (below(2)) op.held.ptr<std::uint32_t>()[i] = kNoRow;
      }
      op.keep_held = below(2) == 0;
    }
    op.slot_num = static_cast<std::int64_t>(slots);
    op.rank = static_cast<std::int64_t>(rank);
    op.device_count = static_cast<std::int64_t>(devices);
    op.by_slot = by_slot;
    return op;
  }
};

TEST_F(SeveralTables, KeysThatADeviceOwns) {
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<FilterKeys> ops;
    for (std::size_t t = 0; t < kTables; ++t) {
      const bool by_slot = below(2) == 0;
      ops.push_back(below(2) ? filter<std::uint32_t>(by_slot) : filter<std::int64_t>(by_slot));
    }
    expect_same(ops);
  }
}

TEST_F(SeveralTables, RequestsOfRows) {
  for (const bool of_nodes : {false, true}) {
    std::vector<RequestRows> ops;
    for (std::size_t t = 0; t < kTables; ++t) {
      const std::size_t n = size(), devices = 1 + below(5), parts = 1 + below(2);
      const std::size_t per_part = 1 + below(40), all = n + below(100);
      RequestRows op;
      op.rows = drawn<std::uint32_t>(n, 50);
      op.buckets = drawn<std::uint32_t>(all, devices * parts * per_part);
      if (below(2) || all != n) op.keys = drawn<std::uint32_t>(n, all + 3);
      op.requests = ref(zeros<std::uint32_t>(n));
      op.places = ref(zeros<std::uint32_t>(n + 1));
      if (of_nodes && below(4) > 0) {
        for (std::size_t d = 0; d < devices; ++d) {
          op.asker_of_device.push_back(static_cast<std::int64_t>(below(devices)));
        }
      }
      op.row_count = 50;
      op.buckets_per_part = static_cast<std::int64_t>(per_part);
      op.askers = static_cast<std::int64_t>(devices);
      op.micro_batches = static_cast<std::int64_t>(parts);
      ops.push_back(op);
    }
    expect_same(ops);
  }
}

TEST_F(SeveralTables, WhatIsAskedForIsCounted) {
  std::vector<CountRequests> ops;
  for (std::size_t t = 0; t < kTables; ++t) {
    const std::size_t askers = 1 + below(6), rows = 1 + below(4000);
    std::vector<std::uint32_t> numbers;
    for (std::size_t i = size(); i > 0; --i) {
      numbers.push_back(static_cast<std::uint32_t>(below(askers * rows)));
    }
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    const std::size_t count = numbers.size();
    const auto requests = zeros<std::uint32_t>(count + below(20) + 1);
    std::ranges::copy(numbers, requests.begin());
    const auto run_offsets = zeros<std::uint32_t>(requests.size() + 1);
    std::ranges::copy(offsets(count, 0, count == 0 ? 0 : 3 * count), run_offsets.begin());
    const auto run_count = zeros<std::int64_t>(1);
    run_count[0] = static_cast<std::int64_t>(count);
    ops.push_back({.requests = ref(requests),
                   .run_offsets = ref(run_offsets),
                   .run_count = ref(run_count),
                   .rows = ref(zeros<std::uint32_t>(requests.size())),
                   .counts = ref(zeros<std::int64_t>(2 * askers), {2, askers}),
                   .row_count = static_cast<std::int64_t>(rows)});
  }
  expect_same(ops);
}

TEST_F(SeveralTables, RequestsAreGivenPlaces) {
  std::vector<PlaceRequests> ops;
  for (std::size_t t = 0; t < kTables; ++t) {
    const std::size_t owners = 1 + below(40), samples = size();
    PlaceRequests op;
    std::vector<std::uint32_t> starts;
    std::size_t n = 0;
    for (std::size_t o = 0; o < owners; ++o) {
      op.row_starts.push_back(static_cast<std::int64_t>(starts.size()));
      op.key_starts.push_back(static_cast<std::int64_t>(n));
      const std::size_t base = below(100);
      std::size_t keys = 0;
      for (std::size_t run = below(samples + 1) / owners; run > 0; --run) {
        starts.push_back(static_cast<std::uint32_t>(base + keys));
        keys += 1 + below(below(7) == 0 ? 50 : 3);
      }
      n += keys;
    }
    const auto runs = zeros<std::uint32_t>(starts.size());
    std::ranges::copy(starts, runs.begin());
    const std::size_t first = below(1000);
    const auto keys = zeros<std::uint32_t>(n);
    std::iota(keys.begin(), keys.end(), static_cast<std::uint32_t>(first));
    std::ranges::shuffle(keys, random);
    op.offsets = ref(runs);
    op.keys = ref(keys);
    op.row_offsets = ref(offsets(3, first, first + n));
    op.buckets = drawn<std::uint32_t>(n, 500);
    op.run_offsets = ref(zeros<std::uint32_t>(starts.size() + 1));
    op.numbers = ref(zeros<std::uint32_t>(n));
    op.sorted_buckets = ref(zeros<std::uint32_t>(n));
    ops.push_back(op);
  }
  expect_same(ops);
}

TEST_F(SeveralTables, OffsetsOfAPart) {
  std::vector<RebaseOffsets> ops;
  for (std::size_t t = 0; t < kTables; ++t) {
    const std::size_t n = size(), first = below(50);
    ops.push_back({.row_offsets = ref(offsets(n, first, first + 3 * n)),
                   .own_offsets = ref(zeros<std::uint32_t>(n + 1))});
  }
  expect_same(ops);
}

TEST_F(SeveralTables, VectorsInTheOrderOfSlots) {
  std::vector<EmbeddingReorderFwd> forward;
  std::vector<EmbeddingReorderBwd> backward;
  const auto tensor = [&](std::size_t elements, bool wide, Shape shape) {
    TensorRef tensor = drawn<std::uint32_t>(elements, 1u << 30);  // any bits
    tensor.dtype = wide ? TensorScalarType::Float32 : TensorScalarType::BFloat16;
    tensor.shape = std::move(shape);
    tensor.row_stride = tensor.row_size();
    return tensor;
  };
  for (std::size_t t = 0; t < kTables; ++t) {
    const std::size_t samples = size() / 8 + 1, slots = 1 + below(5), d = 1 + below(24);
    const std::size_t row = slots * d + (below(2) ? 0 : 8 * below(3) + below(2));
    const bool wide = below(2) == 0;
    const auto devices = static_cast<std::int64_t>(1 + below(4));
    const auto strided = [&] {
      TensorRef y = tensor(samples * row, wide, {samples, slots, d});
      y.row_stride = row;
      return y;
    };
    const TensorRef blocks = tensor(samples * slots * d, wide, {samples * slots, d});
    forward.push_back({.blocks = blocks, .y = strided(), .device_count = devices});
    const TensorRef dblocks = tensor(samples * slots * d, wide, {samples * slots, d});
    backward.push_back({.dy = strided(), .dblocks = dblocks, .device_count = devices});
  }
  expect_same(forward);
  expect_same(backward);
}

TEST_F(SeveralTables, RowsGatheredAndScattered) {
  std::vector<GatherRows> gathers;
  std::vector<ScatterRows> scatters;
  for (std::size_t t = 0; t < kTables; ++t) {
    const std::size_t n = size(), rows = n + 1 + below(200), d = 1 + below(10);
    const auto tensor = [&](std::size_t count) {
      TensorRef ref = drawn<std::uint32_t>(count * d, 1u << 30);
      ref.shape = {count, d};
      ref.row_stride = d;
      return ref;
    };
    gathers.push_back(
        {.rows = drawn<std::uint32_t>(n, rows), .source = tensor(rows), .values = tensor(n)});
    const auto numbers = zeros<std::uint32_t>(rows);
    std::iota(numbers.begin(), numbers.end(), 0u);
    std::ranges::shuffle(numbers, random);
    for (std::uint32_t& number : numbers) {
      if (below(9) == 0) number = kNoRow;
    }
    scatters.push_back(
        {.rows = ref(numbers.first(n)), .values = tensor(n), .target = tensor(rows)});
  }
  expect_same(gathers);
  expect_same(scatters);
}

}  // namespace
}  // namespace hugectr
