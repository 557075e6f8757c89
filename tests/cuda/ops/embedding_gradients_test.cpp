// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <numeric>
#include <random>
#include <type_traits>

#include "core/cpp/base/half.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/embedding_gradient.hpp"
#include "tests/cuda/gpu.hpp"

/// Gradients of the rows of several tables by one launch against a launch a table: the same bits.
namespace hugectr {
namespace {

template <class T>
T to_real(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return to_bfloat16(value);
  }
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint32_t bits_of(BFloat16 value) { return value.bits; }

/// One table's runs, of one occurrence to thousands.
template <class T, class Sum>
struct Table {
  Table(GPUResource& gpu, std::size_t number) : random(number) {
    const std::size_t d = std::array<std::size_t, 7>{4, 16, 32, 64, 128, 7, 1}[number % 7];
    std::vector<std::uint32_t> offsets{0}, buckets;
    // A table has nothing; later ones have so many runs that long ones are listed first.
    const std::size_t runs = number == 5 ? 0 : number >= kMany ? 70'000 : 1 + 37 * number;
    const std::size_t longest = number >= kMany ? 90 : 3000;
    for (std::size_t r = 0; r < runs; ++r) {
      const std::size_t length = r % 11 == 3 ? 1 + random() % longest : 1 + random() % 3;
      offsets.push_back(offsets.back() + static_cast<std::uint32_t>(length));
    }
    for (std::uint32_t i = 0; i < offsets.back(); ++i) {
      buckets.push_back(static_cast<std::uint32_t>(random() % kBags));
    }
    std::vector<T> gradient(kBags * (d + number % 3));
    std::vector<float> scale(kBags);
    for (T& one : gradient) one = to_real<T>(normal(random));
    for (float& one : scale) one = normal(random);
    op.run_offsets = put(gpu, offsets);
    op.sorted_buckets = put(gpu, buckets);
    op.gradient = put(gpu, gradient);
    op.gradient.shape = {kBags, 1, d};
    op.gradient.row_stride = d + number % 3;
    if (number % 2) op.scale = put(gpu, scale);
    op.factor = 0.3;
    op.sums = put(gpu, std::vector<Sum>(runs * d));
    op.sums.shape = {runs, d};
    op.sums.row_stride = d;
  }

  template <class E>
  TensorRef put(GPUResource& gpu, const std::vector<E>& values) {
    auto array = std::make_shared<DeviceArray<E>>(gpu.device(), values.size() + 1);
    gpu.compute_stream().copy(array->data(), values.data(), values.size() * sizeof(E));
    gpu.compute_stream().synchronize();
    TensorRef ref = array->ref();
    ref.shape = {values.size()};
    held.push_back(std::move(array));
    return ref;
  }
  std::vector<std::uint32_t> sums(GPUResource& gpu) const {
    std::vector<Sum> found(op.sums.size());
    gpu.compute_stream().copy(found.data(), op.sums.data, op.sums.size_in_bytes());
    gpu.compute_stream().synchronize();
    std::vector<std::uint32_t> bits;
    for (const Sum& one : found) bits.push_back(bits_of(one));
    return bits;
  }

  static constexpr std::size_t kBags = 50, kMany = 80;
  std::mt19937_64 random;
  std::normal_distribution<float> normal;
  std::vector<std::shared_ptr<void>> held;
  EmbeddingGradient op;
};

template <class T, class Sum>
void compare(const std::vector<std::size_t>& tables) {
  const auto resources = ResourceManager::create({{0}}, 1, DeviceType::Cuda);
  GPUResource& gpu = resources->get_local_gpu(0);
  std::vector<std::unique_ptr<Table<T, Sum>>> together, alone;
  std::vector<EmbeddingGradient> ops;
  for (const std::size_t t : tables) {
    together.push_back(std::make_unique<Table<T, Sum>>(gpu, t));
    alone.push_back(std::make_unique<Table<T, Sum>>(gpu, t));
    ops.push_back(together.back()->op);
    run(gpu.compute_context(), alone.back()->op);
  }
  run_several(gpu.compute_context(), std::move(ops));
  for (std::size_t t = 0; t < together.size(); ++t) {
    const auto found = together[t]->sums(gpu);
    EXPECT_EQ(found, alone[t]->sums(gpu)) << t;
    if (!found.empty()) {
      EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](auto bits) { return bits != 0; }));
    }
  }
}

using EmbeddingGradients = GpuTest<>;

void compare_types(const std::vector<std::size_t>& tables) {
  compare<float, float>(tables);
  compare<BFloat16, BFloat16>(tables);
  compare<BFloat16, float>(tables);
}

TEST_F(EmbeddingGradients, OfManyTablesAreThoseOfEach) {
  std::vector<std::size_t> tables(80);  // more than a launch takes
  std::iota(tables.begin(), tables.end(), 0);
  compare_types(tables);
}

TEST_F(EmbeddingGradients, OfTablesWithManyRunsAreThoseOfEach) {
  compare_types({81, 88});          // of one vector size
  compare_types({80, 81, 82, 83});  // of several
  compare_types({1, 81, 8, 88});    // beside small ones
}

}  // namespace
}  // namespace hugectr
