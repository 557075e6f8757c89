// SPDX-License-Identifier: Apache-2.0
// Time of the ops of DCN and DeepFM that the memory bounds, on GPU 0: cross layers, batch
// normalisation, factorisation machine, sums, columns' own vectors.
//
//   cross_bench [batch] [columns of the cross] [layers]
//
// A JSON line a case: milliseconds, gigabytes a second of what the op must move at least, and that
// as a part of the copy bandwidth of the same run. Rows of 16 bits lie multiples of 16 bytes apart,
// as they do in a network.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "benchmarks/cuda/op_timer.hpp"
#include "core/cpp/ops/batch_norm.hpp"
#include "core/cpp/ops/fm_order2.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/multi_cross.hpp"
#include "core/cpp/ops/projected_cross.hpp"
#include "core/cpp/ops/reduce_sum.hpp"
#include "core/cpp/ops/weight_multiply.hpp"

using namespace hugectr;  // NOLINT

namespace {

constexpr int kSets = 3;

std::size_t bytes_of(TensorScalarType type, std::size_t n) { return size_of(type) * n; }

/// The timer, with tensors as networks lay them out.
class Bench : public OpTimer {
 public:
  TensorRef tensor(TensorScalarType type, const Shape& shape) {
    const std::size_t row = num_elements(shape) / shape[0];
    if (shape.size() != 2 || size_of(type) != 2 || row % 8 == 0) return random(type, shape);
    TensorRef ref = random(type, {shape[0], (row + 7) / 8 * 8});
    ref.shape = shape;
    return ref;
  }

  /// One op a set; `bytes` is what a call must move.
  template <class Op>
  void run_case(const std::string& shape, TensorScalarType type, const std::vector<Op>& sets,
                double bytes) {
    const double ms = time(std::vector<AnyOp>(sets.begin(), sets.end()));
    print(std::string("\"op\": \"") + Op::kName + "\", \"shape\": \"" + shape +
              "\", \"dtype\": \"" + to_string(type) + "\"",
          bytes, ms);
  }
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
      f.ws.push_back(bench.tensor(kFloat, {n}));
      f.bs.push_back(bench.tensor(kFloat, {n}));
      b.dws.push_back(bench.tensor(kFloat, {n}));
      b.dbs.push_back(bench.tensor(kFloat, {n}));
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
    b.partial = bench.tensor(kFloat, {cross_pieces(batch), (layers + 1) * n + layers});
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
    const TensorRef mean = bench.tensor(kFloat, {n}), var = bench.tensor(kFloat, {n});
    const TensorRef low = bench.tensor(kFloat, {n});
    const TensorRef gamma = bench.tensor(kFloat, {n}), beta = bench.tensor(kFloat, {n});
    const TensorRef total = bench.tensor(kDouble, {n + 1}), square = bench.tensor(kDouble, {n});
    const TensorRef dsums = bench.tensor(kDouble, {2 * n});
    sums.push_back({.x = x,
                    .weight = weight,
                    .sums = total,
                    .partial = bench.tensor(kDouble, {pieces, n + 1})});
    squares.push_back({.x = x,
                       .weight = weight,
                       .sums = total,
                       .squares = square,
                       .partial = bench.tensor(kDouble, {pieces, n})});
    forward.push_back({.x = x,
                       .mean = mean,
                       .mean_low = low,
                       .var = var,
                       .gamma = gamma,
                       .beta = beta,
                       .y = to,
                       .eps = 1e-3});
    backward_sums.push_back({.x = x,
                             .mean = mean,
                             .mean_low = low,
                             .var = var,
                             .dy = dy,
                             .dsums = dsums,
                             .dgamma = bench.tensor(kFloat, {n}),
                             .dbeta = bench.tensor(kFloat, {n}),
                             .partial = bench.tensor(kDouble, {pieces, 2 * n}),
                             .eps = 1e-3});
    backward.push_back({.x = x,
                        .weight = weight,
                        .mean = mean,
                        .mean_low = low,
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
    backward.push_back({.x = x,
                        .w = w,
                        .dy = y,
                        .dx = bench.tensor(type, {batch, slots}),
                        .dw = bench.tensor(kFloat, {slots, dim}),
                        .partial = bench.tensor(kFloat, {partial_rows(batch), slots * dim})});
  }
  const double in = static_cast<double>(bytes_of(type, batch * slots));
  bench.run_case(text({batch, slots, dim}), type, forward, in + in * dim);
  bench.run_case(text({batch, slots, dim}), type, backward, 2 * in + in * dim);
}

void bench_projected_cross(Bench& bench, TensorScalarType type, std::size_t batch, std::size_t n,
                           std::size_t k) {
  std::vector<ProjectedCrossFwd> forward;
  std::vector<ProjectedCrossBwd> backward;
  for (int set = 0; set < kSets; ++set) {
    ProjectedCrossFwd f;
    f.x0 = bench.tensor(type, {batch, n});
    f.x = bench.tensor(type, {batch, n});
    f.u = bench.random(type, {n, k});
    f.v = bench.random(type, {k, n});
    f.bias = bench.random(type, {n});
    f.h = bench.tensor(type, {batch, k});
    f.z = bench.tensor(type, {batch, n});
    f.y = bench.tensor(type, {batch, n});
    ProjectedCrossBwd b;
    b.x0 = f.x0;
    b.x = f.x;
    b.u = f.u;
    b.v = f.v;
    b.h = f.h;
    b.z = f.z;
    b.dy = f.y;
    b.dx0 = bench.tensor(type, {batch, n});
    b.dx = bench.tensor(type, {batch, n});
    b.dz = bench.tensor(type, {batch, n});
    b.dh = bench.tensor(type, {batch, k});
    b.du = bench.random(kFloat, {n, k});
    b.dv = bench.random(kFloat, {k, n});
    b.dbias = bench.random(kFloat, {n});
    b.partial = bench.random(kFloat, {partial_rows(batch), n});
    b.accumulate = true;
    forward.push_back(f);
    backward.push_back(b);
  }
  // Between the products x0, x, z and h are read and z, h and y written; backward likewise.
  const double row = static_cast<double>(bytes_of(type, batch * n));
  const double inner = static_cast<double>(bytes_of(type, batch * k));
  const std::string shape = text({batch, n}) + " k " + std::to_string(k);
  bench.run_case(shape, type, forward, 6 * row + 2 * inner);
  bench.run_case(shape, type, backward, 11 * row + 4 * inner);
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::size_t batch = number(1, 65536), n = number(2, 429), layers = number(3, 6);
  for (const auto type : {TensorScalarType::BFloat16, TensorScalarType::Float32}) {
    Bench bench;
    std::printf("{\"device\": \"%s\", \"copy_gb_per_s\": %.0f}\n", bench.device_name().c_str(),
                bench.copy_gb_per_s());
    bench_cross(bench, type, batch, n, layers);
    bench.reset();
    bench_batch_norm(bench, type, batch, 1024);
    bench.reset();
    bench_fm_order2(bench, type, batch, 26, 16);
    bench_reduce_sum(bench, type, {batch, n}, 1);
    bench_reduce_sum(bench, type, {batch, 26, 16}, 1);
    bench_reduce_sum(bench, type, {batch, 26, 16}, 2);
    bench_weight_multiply(bench, type, batch, 13, 16);
    bench_projected_cross(bench, type, batch, n, 64);
    bench.reset();
  }
  return 0;
}
