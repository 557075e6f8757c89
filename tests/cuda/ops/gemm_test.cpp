// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gemm.hpp"

#include <cmath>
#include <random>

#include "core/cpp/device/thread_pool.hpp"
#include "tests/cuda/gpu.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kM = 640, kN = 272, kK = 200;

/// a b with random factors on the device, and in float64.
class GemmOnGpu : public GpuTest<1> {
 protected:
  void SetUp() override {
    GpuTest<1>::SetUp();
    if (IsSkipped()) return;
    stream = backend().create_stream(device, "test");
    std::mt19937 random(std::random_device{}());
    std::normal_distribution<float> normal;
    for (float& value : a) value = normal(random);
    for (float& value : b) value = normal(random);
    for (std::size_t i = 0; i < kM; ++i) {
      for (std::size_t j = 0; j < kN; ++j) {
        double sum = 0.0;
        for (std::size_t p = 0; p < kK; ++p) sum += double{a[i * kK + p]} * b[p * kN + j];
        wanted[i * kN + j] = sum;
      }
    }
  }

  std::vector<float> product(bool tf32, bool search) {
    DeviceArray<float> da(device, a.size()), db(device, b.size()), dc(device, wanted.size());
    da.set(*stream, a);
    db.set(*stream, b);
    OpContext context{.stream = stream.get(), .pool = &pool, .device = device, .tf32 = tf32};
    context.search_algorithms = search;
    run(context, Gemm{.a = make_ref(da.data(), {kM, kK}, device),
                      .b = make_ref(db.data(), {kK, kN}, device),
                      .c = make_ref(dc.data(), {kM, kN}, device)});
    return dc.get(*stream);
  }

  double distance(const std::vector<float>& found) const {
    double difference = 0.0, norm = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      difference += std::pow(found[i] - wanted[i], 2.0);
      norm += std::pow(wanted[i], 2.0);
    }
    return std::sqrt(difference / norm);
  }

  ThreadPool pool{1};
  std::unique_ptr<Stream> stream;
  std::vector<float> a = std::vector<float>(kM * kK), b = std::vector<float>(kK * kN);
  std::vector<double> wanted = std::vector<double>(kM * kN);
};

TEST_F(GemmOnGpu, Tf32IsUsedOnlyWhereItIsAllowed) {
  EXPECT_LE(distance(product(false, true)), 1e-5);
  const double tf32 = distance(product(true, false));
  EXPECT_LE(tf32, 1e-3);
  EXPECT_GT(tf32, 1e-5);  // else nothing was rounded
}

TEST_F(GemmOnGpu, ASearchedProductIsRightAndRepeats) {
  const std::vector<float> searched = product(true, true);  // the first of its kind in this process
  EXPECT_LE(distance(searched), 1e-3);
  EXPECT_EQ(product(true, true), searched);
  EXPECT_EQ(product(true, false), searched);  // what was found is remembered
}

}  // namespace
}  // namespace hugectr
