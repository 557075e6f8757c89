// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/lookup_sort.hpp"
#include "tests/cuda/gpu.hpp"

/// Sorts of the keys of several tables at once against a stable sort of each on the host.
namespace hugectr {
namespace {

using Numbers = std::vector<std::uint32_t>;

struct Sorted {
  Numbers buckets, rows, offsets;
  bool operator==(const Sorted&) const = default;
};

class SortedTable {
 public:
  SortedTable(GPUResource& gpu, std::size_t n, std::uint32_t row_count, std::uint64_t seed)
      : gpu_(gpu), n_(n), row_count_(row_count), keys_(n), buckets_(n) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < n; ++i) {
      // Half of the keys are a few rows, the first and the last of them among those.
      const auto row = static_cast<std::uint32_t>(random() % row_count);
      keys_[i] = i % 2 == 0 ? row : (row % 3 == 0 ? row_count - 1 : row % 3 - 1);
      keys_[i] = std::min(keys_[i], row_count - 1);
      buckets_[i] = static_cast<std::uint32_t>(random());
    }
    rows_in_ = put(keys_);
    buckets_in_ = put(buckets_);
    for (auto* array : {&sorted_, &unique_}) *array = room<std::uint32_t>(n + 1);
    offsets_ = room<std::uint32_t>(n + 2);
    count_ = std::make_unique<DeviceArray<std::int64_t>>(gpu.device(), 1);
    scratch_ = room<std::uint64_t>(2 * n + 1);
  }

  LookupSort op() const {
    const auto some = [](TensorRef ref, std::size_t n) {
      ref.shape = {n};
      return ref;
    };
    return {.rows = some(rows_in_->ref(), n_),
            .buckets = some(buckets_in_->ref(), n_),
            .sorted_buckets = sorted_->ref(),
            .unique_rows = unique_->ref(),
            .run_offsets = offsets_->ref(),
            .run_count = count_->ref(),
            .scratch = scratch_->ref(),
            .row_count = row_count_};
  }

  Sorted found() const {
    Stream& stream = gpu_.compute_stream();
    const auto runs = static_cast<std::size_t>(count_->get(stream)[0]);
    Sorted all{sorted_->get(stream), unique_->get(stream), offsets_->get(stream)};
    if (runs > n_) return {};
    all.buckets.resize(n_);
    all.rows.resize(runs);
    all.offsets.resize(runs + 1);
    return all;
  }

  Sorted wanted() const {
    std::vector<std::size_t> order(n_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return keys_[a] < keys_[b]; });
    Sorted all;
    for (std::size_t i = 0; i < n_; ++i) {
      if (i == 0 || keys_[order[i]] != keys_[order[i - 1]]) {
        all.rows.push_back(keys_[order[i]]);
        all.offsets.push_back(static_cast<std::uint32_t>(i));
      }
      all.buckets.push_back(buckets_[order[i]]);
    }
    all.offsets.push_back(static_cast<std::uint32_t>(n_));
    return all;
  }

 private:
  template <class T>
  std::unique_ptr<DeviceArray<T>> room(std::size_t n) {
    auto array = std::make_unique<DeviceArray<T>>(gpu_.device(), n);
    array->set(gpu_.compute_stream(), std::vector<T>(n, T{0xABCD}));
    return array;
  }
  std::unique_ptr<DeviceArray<std::uint32_t>> put(Numbers values) {
    values.push_back(0);  // no array is empty
    auto array = std::make_unique<DeviceArray<std::uint32_t>>(gpu_.device(), values.size());
    array->set(gpu_.compute_stream(), values);
    return array;
  }

  GPUResource& gpu_;
  std::size_t n_;
  std::uint32_t row_count_;
  Numbers keys_, buckets_;
  std::unique_ptr<DeviceArray<std::uint32_t>> rows_in_, buckets_in_, sorted_, unique_, offsets_;
  std::unique_ptr<DeviceArray<std::int64_t>> count_;
  std::unique_ptr<DeviceArray<std::uint64_t>> scratch_;
};

void check(const std::vector<std::pair<std::size_t, std::uint32_t>>& sizes) {
  const auto resources = ResourceManager::create({{0}}, 1, DeviceType::Cuda);
  GPUResource& gpu = resources->get_local_gpu(0);
  std::vector<std::unique_ptr<SortedTable>> tables;
  std::vector<LookupSort> ops;
  for (const auto& [n, row_count] : sizes) {
    tables.push_back(std::make_unique<SortedTable>(gpu, n, row_count, tables.size()));
    ops.push_back(tables.back()->op());
  }
  run_several(gpu.compute_context(), std::move(ops));
  for (std::size_t t = 0; t < tables.size(); ++t) {
    EXPECT_EQ(tables[t]->found(), tables[t]->wanted())
        << "table " << t << ": " << sizes[t].first << " keys of " << sizes[t].second << " rows";
  }
}

using LookupSorts = GpuTest<>;

TEST_F(LookupSorts, OfFewKeysAreStable) {
  check({{1024, 700}, {1, 1}, {0, 5}, {1023, 1}, {513, 0xFFFFFFFFu}, {256, 256}, {4, 257}});
  std::vector<std::pair<std::size_t, std::uint32_t>> many;  // more than a launch takes
  for (std::size_t t = 0; t < 90; ++t) many.push_back({11 * t, 1 + static_cast<std::uint32_t>(t)});
  check(many);
}

TEST_F(LookupSorts, OfAsManyAsABlockHoldsAreStable) {
  check({{8192, 14'000},
         {8191, 1},
         {8185, 8185},
         {0, 1},
         {8192, 0xFFFFFFFFu},
         {1025, 16},
         {8192, 2}});
}

TEST_F(LookupSorts, OfMoreKeysAreStable) {
  check({{8193, 14'000}, {3, 2}, {0, 1}, {30'000, 100'000}});
}

}  // namespace
}  // namespace hugectr
