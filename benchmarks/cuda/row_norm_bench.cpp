// SPDX-License-Identifier: Apache-2.0
// Times the ops along rows and those with statistics of columns against the copy bandwidth.
//
//   row_norm_bench
//
// Rows as attention has them (4,096 samples of 50 and of 200 steps of 64) and as a wide tower
// (65,536 of 1,024). Prints one JSON object a line, as interaction_bench does.
#include "benchmarks/cuda/op_timer.hpp"
#include "core/cpp/ops/dice.hpp"
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/layer_norm.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/softmax.hpp"

using namespace hugectr;  // NOLINT

namespace {

constexpr TensorScalarType kFloat = TensorScalarType::Float32;
constexpr TensorScalarType kDouble = TensorScalarType::Float64;

void run(OpTimer& timer, TensorScalarType dtype, const Shape& shape) {
  const TensorRef x = timer.random(dtype, shape), dy = timer.random(dtype, shape);
  const TensorRef y = timer.random(dtype, shape);
  const TensorRef matrix = last_axis_rows(x);
  const std::size_t rows = matrix.rows(), n = matrix.row_size();
  const auto columns = [&] { return timer.random(kFloat, {n}); };
  const auto report = [&](const char* name, double tensors, AnyOp op) {
    const double bytes = tensors * static_cast<double>(x.size_in_bytes());
    timer.print(concat("\"op\": \"", name, "\", \"rows\": ", rows, ", \"columns\": ", n,
                       ", \"dtype\": \"", to_string(dtype), "\""),
                bytes, timer.time({std::move(op)}));
  };
  report("relu_fwd", 2, ReluFwd{.x = x, .y = y});
  report("layer_norm_fwd", 2, LayerNormFwd{.x = x, .gamma = columns(), .beta = columns(), .y = y});
  report("layer_norm_bwd", 3,
         LayerNormBwd{.x = x,
                      .gamma = columns(),
                      .dy = dy,
                      .dx = y,
                      .dgamma = columns(),
                      .dbeta = columns(),
                      .partial = timer.random(kFloat, {layer_norm_pieces(rows), 2 * n})});
  report("softmax_fwd", 2, SoftmaxFwd{.x = x, .y = y});
  report("softmax_fwd of a mask", 3, SoftmaxFwd{.x = x, .mask = dy, .y = y});
  report("softmax_bwd", 3, SoftmaxBwd{.y = x, .dy = dy, .dx = y});

  const TensorRef mean = columns(), low = columns();
  const TensorRef var = timer.of(std::vector<float>(n, 0.5f));  // a root of a negative one is slow
  const TensorRef weight = timer.random(kFloat, {shape[0]});
  const TensorRef sums = timer.random(kDouble, {n + 1}), dsums = timer.random(kDouble, {2 * n});
  const TensorRef partial = timer.random(kDouble, {partial_rows(rows), 2 * n});
  const TensorRef squares = timer.random(kDouble, {n});
  const TensorRef of_squares = timer.random(kDouble, {partial_rows(rows), n});
  const TensorRef of_sums = timer.random(kDouble, {partial_rows(rows), n + 1});
  report("batch_norm_sums", 1,
         BatchNormSums{.x = x, .weight = weight, .sums = sums, .partial = of_sums});
  report("batch_norm_squares", 1,
         BatchNormSquares{
             .x = x, .weight = weight, .sums = sums, .squares = squares, .partial = of_squares});
  report("batch_norm_fwd", 2,
         BatchNormFwd{.x = x,
                      .mean = mean,
                      .mean_low = low,
                      .var = var,
                      .gamma = columns(),
                      .beta = columns(),
                      .y = y});
  report("batch_norm_bwd_sums", 2,
         BatchNormBwdSums{.x = x,
                          .mean = mean,
                          .mean_low = low,
                          .var = var,
                          .dy = dy,
                          .dsums = dsums,
                          .dgamma = columns(),
                          .dbeta = columns(),
                          .partial = partial});
  report("batch_norm_bwd", 3,
         BatchNormBwd{.x = x,
                      .weight = weight,
                      .mean = mean,
                      .mean_low = low,
                      .var = var,
                      .gamma = columns(),
                      .dy = dy,
                      .sums = sums,
                      .dsums = dsums,
                      .dx = y});
  report("dice_fwd", 2,
         DiceFwd{.x = x, .mean = mean, .mean_low = low, .var = var, .y = y, .alpha = 0.2});
  report("dice_bwd_sums", 2,
         DiceBwdSums{.x = x,
                     .mean = mean,
                     .mean_low = low,
                     .var = var,
                     .dy = dy,
                     .dsums = dsums,
                     .partial = partial,
                     .alpha = 0.2});
  report("dice_bwd", 3,
         DiceBwd{.x = x,
                 .weight = weight,
                 .mean = mean,
                 .mean_low = low,
                 .var = var,
                 .dy = dy,
                 .sums = sums,
                 .dsums = dsums,
                 .dx = y,
                 .alpha = 0.2});
  timer.reset();
}

}  // namespace

int main() {
  OpTimer timer;
  std::printf("{\"device\": \"%s\", \"copy_gb_per_s\": %.0f}\n", timer.device_name().c_str(),
              timer.copy_gb_per_s());
  for (const auto dtype : {TensorScalarType::BFloat16, TensorScalarType::Float32}) {
    run(timer, dtype, {4096, 50, 64});
    run(timer, dtype, {4096, 200, 64});
    run(timer, dtype, {65536, 1024});
  }
  return 0;
}
