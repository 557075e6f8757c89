// SPDX-License-Identifier: Apache-2.0
// Times the ops that only move and map activations, against the copy bandwidth.
//
//   elementwise_bench [batch] [units]
//
// Prints one JSON object a line, as interaction_bench does.
#include <cstdlib>

#include "benchmarks/cuda/op_timer.hpp"
#include "core/cpp/losses/losses.hpp"
#include "core/cpp/ops/add.hpp"
#include "core/cpp/ops/concat.hpp"
#include "core/cpp/ops/dropout.hpp"
#include "core/cpp/ops/elementwise/relu.hpp"
#include "core/cpp/ops/elementwise/sigmoid.hpp"
#include "core/cpp/ops/elementwise_multiply.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"
#include "core/cpp/ops/reshape.hpp"
#include "core/cpp/ops/select_slots.hpp"
#include "core/cpp/ops/slice.hpp"

using namespace hugectr;  // NOLINT

int main(int argc, char** argv) {
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::size_t batch = number(1, 65536), units = number(2, 1024);
  OpTimer timer;
  std::printf("{\"device\": \"%s\", \"copy_gb_per_s\": %.0f}\n", timer.device_name().c_str(),
              timer.copy_gb_per_s());
  for (const auto dtype :
       {TensorScalarType::BFloat16, TensorScalarType::Float16, TensorScalarType::Float32}) {
    const Shape shape{batch, units};
    const TensorRef a = timer.random(dtype, shape), b = timer.random(dtype, shape);
    const TensorRef c = timer.random(dtype, shape), d = timer.random(dtype, shape);
    const TensorRef wide = timer.random(dtype, {batch, 2 * units});
    const auto report = [&](const char* name, double tensors, AnyOp op) {
      const auto bytes = tensors * static_cast<double>(a.size_in_bytes());
      timer.print(concat("\"op\": \"", name, "\", \"batch\": ", batch, ", \"units\": ", units,
                         ", \"dtype\": \"", to_string(dtype), "\""),
                  bytes, timer.time({std::move(op)}));
    };
    report("relu_fwd", 2, ReluFwd{.x = a, .y = b});
    report("sigmoid_fwd", 2, SigmoidFwd{.x = a, .y = b});
    report("sigmoid_bwd", 3, SigmoidBwd{.y = a, .dy = b, .dx = c});
    report("add_fwd", 3, AddFwd{.xs = {a, b}, .y = c});
    report("elementwise_multiply_fwd", 3, ElementwiseMultiplyFwd{.xs = {a, b}, .y = c});
    ElementwiseMultiplyBwd product_bwd;
    product_bwd.xs = {a, b};
    product_bwd.dy = c;
    product_bwd.dxs = {d, timer.random(dtype, shape)};
    report("elementwise_multiply_bwd", 5, product_bwd);
    report("reshape_fwd", 2, ReshapeFwd{.x = a, .y = b});
    report("concat_fwd", 4, ConcatFwd{.xs = {a, b}, .y = wide});
    SliceFwd slice;
    slice.x = wide;
    slice.ys = {a, b};
    slice.begins = {0, static_cast<std::int64_t>(units)};
    report("slice_fwd", 4, slice);
    // Rows of odd width, padded so that they begin at 16 bytes: what two layers give back to the
    // input of a DCN that they share.
    const auto odd = [&] {
      TensorRef rows = timer.random(dtype, {batch, 432});
      rows.shape[1] = 429;
      return rows;
    };
    SliceBwd shared;
    shared.dys = {odd(), odd()};
    shared.dx = odd();
    shared.begins = {0, 0};
    const auto odd_size = static_cast<double>(shared.dx.size_in_bytes());
    report("slice_bwd of 2 x 429 in rows of 432",
           3 * odd_size / static_cast<double>(a.size_in_bytes()), shared);
    const TensorRef step = timer.random(TensorScalarType::Int64, {1});
    DropoutFwd dropout;
    dropout.x = a;
    dropout.y = b;
    dropout.step = dropout.first_sample = step;
    report("dropout_fwd", 2, dropout);
    CatalogueLoss<BinaryCrossEntropy> loss;
    loss.logits = timer.random(dtype, {batch, 1});
    loss.dlogits = timer.random(dtype, {batch, 1});
    loss.labels = timer.random(TensorScalarType::Float32, {batch, 1});
    loss.prediction = timer.random(TensorScalarType::Float32, {batch, 1});
    loss.weight = timer.random(TensorScalarType::Float32, {batch});
    loss.inv_weight_sum = timer.random(TensorScalarType::Float32, {1});
    loss.loss = timer.random(TensorScalarType::Float32, {1});
    loss.partial = timer.random(TensorScalarType::Float64, {partial_rows(batch)});
    const double loss_bytes = static_cast<double>(batch * (2 * size_of(dtype) + 12));
    report("bce_loss", loss_bytes / static_cast<double>(a.size_in_bytes()), loss);
    timer.reset();
  }
  return 0;
}
