// SPDX-License-Identifier: Apache-2.0
// Times attention and a gated recurrent unit, forward and backward; torch_sequence.py is the peer.
//
//   sequence_bench [batch] [width] [heads] [steps ...]
//
// Prints one JSON object a line: shape, dtype, milliseconds, GB/s of the bytes that must move,
// their share of what a copy moves, and the milliseconds that NOTES.md says are the floor. The ops
// of a GRU layer are timed one by one; "gru_layer" lines are their sums.
#include <cstdlib>

#include "benchmarks/cuda/op_timer.hpp"
#include "core/cpp/ops/attention.hpp"
#include "core/cpp/ops/gemm.hpp"
#include "core/cpp/ops/gru.hpp"
#include "core/cpp/ops/linear.hpp"

using namespace hugectr;  // NOLINT

namespace {

constexpr auto kFloat32 = TensorScalarType::Float32;
// Of one H100 (SXM): exponentials a second (16 a clock and multiprocessor, 132 of them at 1.7 GHz),
// products of 16 bits, of float32.
constexpr double kExponentials = 3.6e12, kTensorFlops = 8e14, kFlops = 5.5e13;

struct Floor {
  double bytes = 0.0, flops = 0.0, exponentials = 0.0;
  double milliseconds(const OpTimer& timer, TensorScalarType dtype) const {
    const double rate = dtype == kFloat32 ? kFlops : kTensorFlops;
    return 1e3 * std::max({bytes / (1e9 * timer.copy_gb_per_s()), flops / rate,
                           exponentials / kExponentials});
  }
};

void print(OpTimer& timer, const std::string& shape, TensorScalarType dtype, const char* op,
           const Floor& floor, double ms) {
  timer.print(concat("\"op\": \"", op, "\", ", shape, ", \"dtype\": \"", to_string(dtype),
                     "\", \"floor_ms\": ", floor.milliseconds(timer, dtype)),
              floor.bytes, ms);
}

struct Sizes {
  std::size_t batch, steps, width;
  std::int64_t heads;
};

void time_attention(OpTimer& timer, const Sizes& s, TensorScalarType dtype) {
  const Shape shape{s.batch, s.steps, s.width};
  const Shape statistics{s.batch, static_cast<std::size_t>(s.heads), s.steps};
  const std::size_t bytes = num_elements(shape) * size_of(dtype);
  std::vector<AnyOp> forward, backward;
  for (std::size_t i = 0; i < OpTimer::sets_for(4 * bytes); ++i) {
    AttentionFwd op{.heads = s.heads};
    for (TensorRef* ref : {&op.q, &op.k, &op.v, &op.o}) *ref = timer.random(dtype, shape);
    op.lse = timer.random(kFloat32, statistics);
    AnyOp(op).run(timer.context());
    AttentionBwd bwd{.q = op.q, .k = op.k, .v = op.v, .o = op.o, .lse = op.lse, .heads = s.heads};
    for (TensorRef* ref : {&bwd.dy, &bwd.dq, &bwd.dk, &bwd.dv}) *ref = timer.random(dtype, shape);
    bwd.delta = timer.random(kFloat32, statistics);
    forward.emplace_back(op);
    backward.emplace_back(bwd);
  }
  const auto pairs = static_cast<double>(s.batch * s.steps * s.steps);
  const auto width = static_cast<double>(s.width), heads = static_cast<double>(s.heads);
  const auto moved = static_cast<double>(bytes);
  const std::string fields = concat("\"batch\": ", s.batch, ", \"steps\": ", s.steps,
                                    ", \"width\": ", s.width, ", \"heads\": ", s.heads);
  print(timer, fields, dtype, "attention_fwd",
        {.bytes = 4 * moved, .flops = 4 * pairs * width, .exponentials = pairs * heads},
        timer.time(forward));
  print(timer, fields, dtype, "attention_bwd",
        {.bytes = 8 * moved, .flops = 10 * pairs * width, .exponentials = pairs * heads},
        timer.time(backward));
  timer.reset();
}

void time_gru(OpTimer& timer, const Sizes& s, TensorScalarType dtype) {
  const std::size_t rows = s.batch * s.steps, h = s.width;
  const auto tensor = [&](const Shape& shape) { return timer.random(dtype, shape); };
  const TensorRef x = tensor({rows, h}), w = tensor({3 * h, h}), r = tensor({3 * h, h});
  const TensorRef projected = tensor({rows, 3 * h}), gates = tensor({rows, 4 * h});
  const TensorRef y = tensor({s.batch, s.steps, h}), dy = tensor(y.shape);
  const TensorRef dx = tensor({rows, 3 * h}), ds = tensor({rows, 3 * h}),
                  before = tensor({rows, h});
  const TensorRef bias = timer.random(kFloat32, {3 * h}), dbias = timer.random(kFloat32, {3 * h});
  const TensorRef partial = timer.random(kFloat32, {gru_slices(s.batch), 3 * h});
  const TensorRef dw = timer.random(kFloat32, w.shape), dr = timer.random(kFloat32, r.shape);
  const TensorRef back = tensor(x.shape);
  const auto unit = static_cast<double>(rows * h * size_of(dtype));  // bytes of a column a unit
  const auto flops = 6.0 * static_cast<double>(rows * h * h);        // of one product with 3 h
  const std::string fields =
      concat("\"batch\": ", s.batch, ", \"steps\": ", s.steps, ", \"width\": ", s.width);
  double total = 0.0;
  const auto time = [&](const char* name, const Floor& floor, AnyOp op) {
    const double ms = timer.time({std::move(op)});
    total += ms;
    print(timer, fields, dtype, name, floor, ms);
  };
  const auto sum = [&](const char* name, double units, double products) {
    print(timer, fields, dtype, name, {.bytes = units * unit, .flops = products * flops}, total);
    total = 0.0;
  };
  time("gru_inputs", {.bytes = 4 * unit, .flops = flops},
       Gemm{.a = x, .b = w, .c = projected, .transpose_b = true});
  time("gru_fwd", {.bytes = 8 * unit, .flops = flops},
       GruFwd{.x = projected, .bias = bias, .w = r, .y = y, .gates = gates});
  // Of the layer as a whole only x must be read, and y and what backward needs be written.
  sum("gru_layer_fwd", 6, 2);
  time("gru_bwd", {.bytes = 13 * unit, .flops = flops},
       GruBwd{.w = r,
              .y = y,
              .gates = gates,
              .dy = dy,
              .dx = dx,
              .ds = ds,
              .before = before,
              .dbias = dbias,
              .partial = partial});
  time("gru_dw", {.bytes = 4 * unit, .flops = flops},
       LinearBwd{.x = dx, .w = w, .dy = x, .dw = dw});
  time("gru_dr", {.bytes = 4 * unit, .flops = flops},
       LinearBwd{.x = ds, .w = r, .dy = before, .dw = dr});
  time("gru_dx", {.bytes = 4 * unit, .flops = flops}, LinearFwd{.x = dx, .w = w, .y = back});
  sum("gru_layer_bwd", 8, 4);
  timer.reset();
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  std::vector<std::size_t> steps;
  for (int i = 4; i < argc; ++i) steps.push_back(number(i, 0));
  if (steps.empty()) steps = {50, 200};
  OpTimer timer;
  std::printf("{\"device\": \"%s\", \"copy_gb_per_s\": %.0f}\n", timer.device_name().c_str(),
              timer.copy_gb_per_s());
  for (const auto dtype : {TensorScalarType::BFloat16, kFloat32}) {
    for (const std::size_t t : steps) {
      const Sizes sizes{number(1, 4096), t, number(2, 64), static_cast<std::int64_t>(number(3, 4))};
      time_attention(timer, sizes, dtype);
      time_gru(timer, sizes, dtype);
    }
  }
  return 0;
}
