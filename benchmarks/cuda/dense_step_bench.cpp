// SPDX-License-Identifier: Apache-2.0
// Times what mixed precision adds to the end of a step: the optimizer that also writes the 16-bit
// weights, and the search for overflows of float16.
//
//   dense_step_bench [weights] [batch] [slots] [dim]
//
// Prints one JSON object a line, as interaction_bench does.
#include <cstdlib>

#include "benchmarks/cuda/op_timer.hpp"
#include "core/cpp/ops/cast.hpp"
#include "core/cpp/ops/dense_update.hpp"
#include "core/cpp/ops/loss_scale.hpp"

using namespace hugectr;  // NOLINT

namespace {

constexpr auto kFloat32 = TensorScalarType::Float32;

void time_updates(OpTimer& timer, std::size_t n, Optimizer optimizer, const char* name) {
  for (const auto dtype : {kFloat32, TensorScalarType::BFloat16}) {
    const bool lowered = dtype != kFloat32;
    OptParams params;
    params.optimizer = optimizer;
    const auto states = num_states(params);
    const std::size_t bytes = n * (12 + 8 * states + (lowered ? 2 : 0));
    std::vector<AnyOp> sets;
    for (std::size_t i = 0; i < OpTimer::sets_for(bytes); ++i) {
      DenseUpdate op;
      op.params = params;
      op.w = timer.random(kFloat32, {n});
      op.g = timer.random(kFloat32, {n});
      if (states >= 1) op.state0 = timer.random(kFloat32, {n});
      if (states >= 2) op.state1 = timer.random(kFloat32, {n});
      op.lr = timer.random(kFloat32, {1});
      op.step = timer.random(TensorScalarType::Int64, {1});
      op.unscale = timer.random(kFloat32, {1});
      if (lowered) op.w_16 = timer.random(dtype, {n});
      sets.emplace_back(op);
    }
    timer.print(concat("\"op\": \"dense_update\", \"optimizer\": \"", name, "\", \"weights\": ", n,
                       ", \"w_16\": ", lowered ? "true" : "false"),
                static_cast<double>(bytes), timer.time(std::move(sets)));
    timer.reset();
  }
}

void time_search(OpTimer& timer, const Shape& shape, TensorScalarType dtype) {
  std::vector<AnyOp> sets;
  const std::size_t bytes = num_elements(shape) * size_of(dtype);
  for (std::size_t i = 0; i < OpTimer::sets_for(bytes); ++i) {
    FindOverflow op;
    op.xs = {timer.random(dtype, shape)};
    op.overflow = timer.random(kFloat32, {1});
    sets.emplace_back(op);
  }
  timer.print(concat("\"op\": \"find_overflow\", \"shape\": \"", to_string(shape),
                     "\", \"dtype\": \"", to_string(dtype), "\""),
              static_cast<double>(bytes), timer.time(std::move(sets)));
  timer.reset();
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::size_t n = number(1, 2367744), batch = number(2, 65536);
  const std::size_t slots = number(3, 26), dim = number(4, 128);
  OpTimer timer;
  std::printf("{\"device\": \"%s\", \"copy_gb_per_s\": %.0f}\n", timer.device_name().c_str(),
              timer.copy_gb_per_s());
  for (const std::size_t weights : {n, 16 * n}) {
    time_updates(timer, weights, Optimizer::SGD, "SGD");
    time_updates(timer, weights, Optimizer::Adam, "Adam");
  }
  time_search(timer, {n}, kFloat32);
  time_search(timer, {batch, slots, dim}, TensorScalarType::Float16);
  const TensorRef dense = timer.random(kFloat32, {batch, 13});
  TensorRef lowered = timer.random(TensorScalarType::BFloat16, {batch, 16});
  lowered.shape = dense.shape;
  timer.print(concat("\"op\": \"cast\", \"shape\": \"", to_string(dense.shape), "\""),
              static_cast<double>(batch * 13 * 6), timer.time({Cast{.x = dense, .y = lowered}}));
  return 0;
}
