// SPDX-License-Identifier: Apache-2.0
// Time of the ops of the DCN and DeepFM networks that the memory bounds, on one GPU.
//
//   cross_bench [batch] [columns of the cross] [layers]
//
// Prints a JSON line a case: milliseconds a call (the median of several rounds of many calls),
// gigabytes a second of the bytes that the op must move, and that as a fraction of what a
// device-to-device copy reaches in the same run. Inputs rotate and are larger than the L2 cache.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/cpp/base/half.hpp"
#include "core/cpp/device/device_backend.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/fm_order2.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/multi_cross.hpp"
#include "core/cpp/ops/reduce_sum.hpp"
#include "core/cpp/ops/weight_multiply.hpp"

using namespace hugectr;  // NOLINT

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSets = 3, kCalls = 30, kRounds = 7;

std::size_t bytes_of(TensorScalarType type, std::size_t n) { return size_of(type) * n; }

/// The GPU, memory on it, and the clock.
class Bench {
 public:
  Bench()
      : backend_(DeviceBackend::get(DeviceType::Cuda)),
        memory_(backend_.memory_resource(device_)),
        stream_(backend_.create_stream(device_, "bench")),
        pool_(1) {
    context_ = {.stream = stream_.get(), .pool = &pool_, .device = device_};
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    numbers_.resize(1 << 20);
    for (float& x : numbers_) x = normal(random);
  }

  /// A tensor of random numbers (times scale) that is never given back; rows start 16 bytes apart.
  TensorRef tensor(TensorScalarType type, const Shape& shape, float scale = 1.0f,
                   bool packed = false) {
    TensorRef ref;
    ref.dtype = type;
    ref.device = device_;
    ref.shape = shape;
    const std::size_t pack = 16 / size_of(type);
    ref.row_stride = packed || shape.size() < 2 || type == TensorScalarType::Float32
                         ? ref.row_size()
                         : (ref.row_size() + pack - 1) / pack * pack;
    const std::size_t n = ref.rows() * ref.row_stride;
    ref.data = memory_->allocate(std::max<std::size_t>(bytes_of(type, n), 16), "bench");
    std::vector<char> host(bytes_of(type, numbers_.size()));
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const float x = scale * numbers_[i];
      if (type == TensorScalarType::Float32) reinterpret_cast<float*>(host.data())[i] = x;
      if (type == TensorScalarType::Float64) reinterpret_cast<double*>(host.data())[i] = 1.0;
      if (type == TensorScalarType::Float16) {
        reinterpret_cast<Float16*>(host.data())[i] = to_float16(x);
      }
      if (type == TensorScalarType::BFloat16) {
        reinterpret_cast<BFloat16*>(host.data())[i] = to_bfloat16(x);
      }
    }
    for (std::size_t i = 0; i < n; i += numbers_.size()) {
      stream_->copy(static_cast<char*>(ref.data) + bytes_of(type, i), host.data(),
                    bytes_of(type, std::min(numbers_.size(), n - i)));
    }
    stream_->synchronize();
    return ref;
  }

  /// Milliseconds of a call; call(i) submits the work of set i.
  double time(const std::function<void(int)>& call) {
    for (int i = 0; i < 2 * kSets; ++i) call(i % kSets);
    stream_->synchronize();
    std::vector<double> rounds;
    for (int round = 0; round < kRounds; ++round) {
      const auto start = Clock::now();
      for (int i = 0; i < kCalls; ++i) call(i % kSets);
      stream_->synchronize();
      const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
      rounds.push_back(taken.count() / kCalls);
    }
    std::sort(rounds.begin(), rounds.end());
    return rounds[kRounds / 2];
  }

  void measure_copy() {
    const std::size_t bytes = 256u << 20;
    const TensorRef from = tensor(TensorScalarType::Float32, {bytes / 4});
    const TensorRef to = tensor(TensorScalarType::Float32, {bytes / 4});
    const double ms = time([&](int) { stream_->copy(to.data, from.data, bytes); });
    copy_ = 2.0 * static_cast<double>(bytes) / ms / 1e6;
    std::printf("{\"case\": \"copy\", \"device\": \"%s\", \"ms\": %.4f, \"GB/s\": %.0f}\n",
                backend_.device_name(0).c_str(), ms, copy_);
  }

  /// One op a set; `bytes` is what a call must move.
  template <class Op>
  void run_case(const std::string& shape, TensorScalarType type, const std::vector<Op>& sets,
                double bytes) {
    std::vector<AnyOp> ops;
    for (const Op& op : sets) {
      ops.emplace_back(op);
      ops.back().prepare(context_);
    }
    const double ms = time([&](int i) { ops[static_cast<std::size_t>(i)].run_prepared(context_); });
    const double rate = bytes / ms / 1e6;
    std::printf(
        "{\"case\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"ms\": %.4f, \"GB/s\": %.0f, "
        "\"of_copy\": %.3f}\n",
        Op::kName, shape.c_str(), std::string(to_string(type)).c_str(), ms, rate, rate / copy_);
    std::fflush(stdout);
  }

 private:
  const DeviceId device_{DeviceType::Cuda, 0};
  DeviceBackend& backend_;
  std::shared_ptr<MemoryResource> memory_;
  std::unique_ptr<Stream> stream_;
  ThreadPool pool_;
  OpContext context_;
  std::vector<float> numbers_;
  double copy_ = 0.0;
};

constexpr auto kFloat = TensorScalarType::Float32;
constexpr auto kDouble = TensorScalarType::Float64;

std::string text(const Shape& shape) { return to_string(shape); }

void bench_cross(Bench& bench, TensorScalarType type, std::size_t batch, std::size_t n,
                 std::size_t layers) {
  std::vector<MultiCrossFwd> forward;
  std::vector<MultiCrossBwd> backward;
  for (int set = 0; set < kSets; ++set) {
    MultiCrossFwd f;
    MultiCrossBwd b;
    for (std::size_t l = 0; l < layers; ++l) {
      f.ws.push_back(bench.tensor(kFloat, {n}, 0.05f));
      f.bs.push_back(bench.tensor(kFloat, {n}, 0.1f));
      b.dws.push_back(bench.tensor(kFloat, {n}, 0.0f));
      b.dbs.push_back(bench.tensor(kFloat, {n}, 0.0f));
    }
    f.x = bench.tensor(type, {batch, n});
    f.y = bench.tensor(type, {batch, n});
    f.dots = bench.tensor(kFloat, {batch, layers});
    b.x = f.x;
    b.dy = f.y;
    b.ws = f.ws;
    b.bs = f.bs;
    b.dots = f.dots;
    b.dx = bench.tensor(type, {batch, n});
    b.partial = bench.tensor(kFloat, {cross_pieces(batch), (layers + 1) * n + layers}, 0.0f, true);
    forward.push_back(f);
    backward.push_back(b);
  }
  const double row = static_cast<double>(bytes_of(type, batch * n));
  const std::string shape = text({batch, n}) + " x " + std::to_string(layers);
  bench.run_case(shape, type, forward, 2 * row);
  bench.run_case(shape, type, backward, 3 * row);
}

void bench_batch_norm(Bench& bench, TensorScalarType type, std::size_t batch, std::size_t n) {
  std::vector<BatchNormSums> sums;
  std::vector<BatchNormSquares> squares;
  std::vector<BatchNormFwd> forward;
  std::vector<BatchNormBwdSums> backward_sums;
  std::vector<BatchNormBwd> backward;
  const std::size_t pieces = partial_rows(batch);
  for (int set = 0; set < kSets; ++set) {
    const TensorRef x = bench.tensor(type, {batch, n}), dy = bench.tensor(type, {batch, n});
    const TensorRef to = bench.tensor(type, {batch, n});
    const TensorRef weight = bench.tensor(kFloat, {batch});
    const TensorRef mean = bench.tensor(kFloat, {n}), var = bench.tensor(kFloat, {n}, 0.0f);
    const TensorRef gamma = bench.tensor(kFloat, {n}), beta = bench.tensor(kFloat, {n});
    const TensorRef total = bench.tensor(kDouble, {n + 1}), square = bench.tensor(kDouble, {n});
    const TensorRef dsums = bench.tensor(kDouble, {2 * n});
    sums.push_back({.x = x,
                    .weight = weight,
                    .sums = total,
                    .partial = bench.tensor(kDouble, {pieces, n + 1}, 0.0f, true)});
    squares.push_back({.x = x,
                       .weight = weight,
                       .sums = total,
                       .squares = square,
                       .partial = bench.tensor(kDouble, {pieces, n}, 0.0f, true)});
    forward.push_back(
        {.x = x, .mean = mean, .var = var, .gamma = gamma, .beta = beta, .y = to, .eps = 1e-3});
    backward_sums.push_back({.x = x,
                             .mean = mean,
                             .var = var,
                             .dy = dy,
                             .dsums = dsums,
                             .dgamma = bench.tensor(kFloat, {n}),
                             .dbeta = bench.tensor(kFloat, {n}),
                             .partial = bench.tensor(kDouble, {pieces, 2 * n}, 0.0f, true),
                             .eps = 1e-3});
    backward.push_back({.x = x,
                        .weight = weight,
                        .mean = mean,
                        .var = var,
                        .gamma = gamma,
                        .dy = dy,
                        .sums = total,
                        .dsums = dsums,
                        .dx = to,
                        .eps = 1e-3});
  }
  const double row = static_cast<double>(bytes_of(type, batch * n));
  const std::string shape = text({batch, n});
  bench.run_case(shape, type, sums, row);
  bench.run_case(shape, type, squares, row);
  bench.run_case(shape, type, forward, 2 * row);
  bench.run_case(shape, type, backward_sums, 2 * row);
  bench.run_case(shape, type, backward, 3 * row);
}

void bench_fm_order2(Bench& bench, TensorScalarType type, std::size_t batch, std::size_t vectors,
                     std::size_t dim) {
  std::vector<FmOrder2Fwd> forward;
  std::vector<FmOrder2Bwd> backward;
  for (int set = 0; set < kSets; ++set) {
    const TensorRef x = bench.tensor(type, {batch, vectors * dim});
    const TensorRef y = bench.tensor(type, {batch, dim});
    forward.push_back({.x = x, .y = y});
    backward.push_back({.x = x, .dy = y, .dx = bench.tensor(type, x.shape)});
  }
  const double one = static_cast<double>(bytes_of(type, batch * dim)), all = one * vectors;
  bench.run_case(text({batch, vectors, dim}), type, forward, all + one);
  bench.run_case(text({batch, vectors, dim}), type, backward, 2 * all + one);
}

void bench_reduce_sum(Bench& bench, TensorScalarType type, const Shape& shape, std::size_t axis) {
  std::vector<ReduceSumFwd> forward;
  std::vector<ReduceSumBwd> backward;
  Shape reduced = shape;
  reduced[axis] = 1;
  for (int set = 0; set < kSets; ++set) {
    const TensorRef x = bench.tensor(type, shape), y = bench.tensor(type, reduced);
    forward.push_back({.x = x, .y = y, .axis = static_cast<std::int64_t>(axis)});
    backward.push_back({.dy = y, .dx = x, .axis = static_cast<std::int64_t>(axis)});
  }
  const double bytes =
      static_cast<double>(bytes_of(type, num_elements(shape) + num_elements(reduced)));
  const std::string name = text(shape) + " axis " + std::to_string(axis);
  bench.run_case(name, type, forward, bytes);
  bench.run_case(name, type, backward, bytes);
}

void bench_weight_multiply(Bench& bench, TensorScalarType type, std::size_t batch,
                           std::size_t slots, std::size_t dim) {
  std::vector<WeightMultiplyFwd> forward;
  std::vector<WeightMultiplyBwd> backward;
  for (int set = 0; set < kSets; ++set) {
    const TensorRef x = bench.tensor(type, {batch, slots}), w = bench.tensor(kFloat, {slots, dim});
    const TensorRef y = bench.tensor(type, {batch, slots * dim});
    forward.push_back({.x = x, .w = w, .y = y});
    backward.push_back(
        {.x = x,
         .w = w,
         .dy = y,
         .dx = bench.tensor(type, {batch, slots}),
         .dw = bench.tensor(kFloat, {slots, dim}),
         .partial = bench.tensor(kFloat, {partial_rows(batch), slots * dim}, 0.0f, true)});
  }
  const double in = static_cast<double>(bytes_of(type, batch * slots));
  bench.run_case(text({batch, slots, dim}), type, forward, in + in * dim);
  bench.run_case(text({batch, slots, dim}), type, backward, 2 * in + in * dim);
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::size_t batch = number(1, 65536), n = number(2, 429), layers = number(3, 6);
  for (const auto type : {TensorScalarType::BFloat16, TensorScalarType::Float32}) {
    Bench bench;  // its memory goes with the process: a few gigabytes
    bench.measure_copy();
    bench_cross(bench, type, batch, n, layers);
    bench_batch_norm(bench, type, batch, 1024);
    bench_fm_order2(bench, type, batch, 26, 16);
    bench_reduce_sum(bench, type, {batch, n}, 1);
    bench_reduce_sum(bench, type, {batch, 26, 16}, 1);
    bench_reduce_sum(bench, type, {batch, 26, 16}, 2);
    if (type == TensorScalarType::Float32) bench_weight_multiply(bench, type, batch, 13, 16);
  }
  return 0;
}
