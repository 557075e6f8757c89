// SPDX-License-Identifier: Apache-2.0
// Times the ops along rows and those with statistics of columns against the copy bandwidth.
//
//   row_norm_bench [PART_OF_A_NAME ...]      e.g. row_norm_bench layer_norm dice_bwd
//
// Rows as attention has them (4,096 samples of 50 and of 200 steps of 64) and as a wide tower
// (65,536 of 1,024). Prints one JSON object a line, as interaction_bench does.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

/// The tensors of one run. What belongs to columns is small and shared by all sets.
struct Set {
  TensorRef x, dy, y;
};

class Bench {
 public:
  explicit Bench(std::vector<std::string> names) : names_(std::move(names)) {}
  void run();

 private:
  bool picked(const std::string& op) const {
    const auto part = [&](const std::string& name) { return op.find(name) != std::string::npos; };
    return names_.empty() || std::any_of(names_.begin(), names_.end(), part);
  }
  void start(TensorScalarType dtype, const Shape& shape);
  void time_rows();
  void time_statistics();
  TensorRef columns() { return timer_.random(kFloat, {n_}); }

  /// Times the op that op_of(set) makes and that moves so many tensors as large as x, on as many
  /// sets as do not fit the cache together.
  template <class OpOf>
  void report(const char* name, int tensors, const OpOf& op_of) {
    if (!picked(name)) return;
    const std::size_t bytes = static_cast<std::size_t>(tensors) * bytes_of_one_;
    std::vector<AnyOp> ops;
    for (std::size_t i = 0; i < OpTimer::sets_for(bytes); ++i) ops.push_back(op_of(sets_[i]));
    const std::string fields =
        concat("\"op\": \"", name, "\", \"rows\": ", rows_, ", \"columns\": ", n_,
               ", \"dtype\": \"", to_string(dtype_), "\", \"sets\": ", ops.size());
    timer_.print(fields, static_cast<double>(bytes), timer_.time(std::move(ops)));
  }

  OpTimer timer_;
  const std::vector<std::string> names_;
  TensorScalarType dtype_ = kFloat;
  Shape shape_;
  std::size_t rows_ = 0, n_ = 0, bytes_of_one_ = 0;
  std::vector<Set> sets_;
};

// As many sets as an op wants that moves one tensor only.
void Bench::start(TensorScalarType dtype, const Shape& shape) {
  timer_.reset();
  dtype_ = dtype;
  shape_ = shape;
  sets_.clear();
  do {
    sets_.push_back(
        {timer_.random(dtype, shape), timer_.random(dtype, shape), timer_.random(dtype, shape)});
    bytes_of_one_ = sets_[0].x.size_in_bytes();
  } while (sets_.size() < OpTimer::sets_for(bytes_of_one_));
  const TensorRef matrix = last_axis_rows(sets_[0].x);
  rows_ = matrix.rows();
  n_ = matrix.row_size();
}

void Bench::time_rows() {
  const TensorRef gamma = columns(), beta = columns(), dgamma = columns(), dbeta = columns();
  const TensorRef partial = timer_.random(kFloat, {layer_norm_pieces(rows_), 2 * n_});
  report("relu_fwd", 2, [&](const Set& s) { return ReluFwd{.x = s.x, .y = s.y}; });
  report("layer_norm_fwd", 2, [&](const Set& s) {
    return LayerNormFwd{.x = s.x, .gamma = gamma, .beta = beta, .y = s.y};
  });
  report("layer_norm_bwd", 3, [&](const Set& s) {
    return LayerNormBwd{.x = s.x,
                        .gamma = gamma,
                        .dy = s.dy,
                        .dx = s.y,
                        .dgamma = dgamma,
                        .dbeta = dbeta,
                        .partial = partial};
  });
  report("softmax_fwd", 2, [&](const Set& s) { return SoftmaxFwd{.x = s.x, .y = s.y}; });
  report("softmax_fwd of a mask", 3,
         [&](const Set& s) { return SoftmaxFwd{.x = s.x, .mask = s.dy, .y = s.y}; });
  report("softmax_bwd", 3,
         [&](const Set& s) { return SoftmaxBwd{.y = s.x, .dy = s.dy, .dx = s.y}; });
}

void Bench::time_statistics() {
  const TensorRef mean = columns(), low = columns(), gamma = columns(), beta = columns();
  const TensorRef var = timer_.of(std::vector<float>(n_, 0.5f));  // a root of a negative is slow
  const TensorRef weight = timer_.random(kFloat, {shape_[0]});
  const TensorRef sums = timer_.random(kDouble, {n_ + 1});
  const TensorRef dsums = timer_.random(kDouble, {2 * n_});
  const TensorRef squares = timer_.random(kDouble, {n_});
  const TensorRef dgamma = columns(), dbeta = columns();
  const auto partial = [&](std::size_t count) {
    return timer_.random(kDouble, {partial_rows(rows_), count});
  };
  const TensorRef of_sums = partial(n_ + 1), of_squares = partial(n_), of_dsums = partial(2 * n_);
  report("batch_norm_sums", 1, [&](const Set& s) {
    return BatchNormSums{.x = s.x, .weight = weight, .sums = sums, .partial = of_sums};
  });
  report("batch_norm_squares", 1, [&](const Set& s) {
    return BatchNormSquares{
        .x = s.x, .weight = weight, .sums = sums, .squares = squares, .partial = of_squares};
  });
  report("batch_norm_fwd", 2, [&](const Set& s) {
    return BatchNormFwd{.x = s.x,
                        .mean = mean,
                        .mean_low = low,
                        .var = var,
                        .gamma = gamma,
                        .beta = beta,
                        .y = s.y};
  });
  report("batch_norm_bwd_sums", 2, [&](const Set& s) {
    return BatchNormBwdSums{.x = s.x,
                            .mean = mean,
                            .mean_low = low,
                            .var = var,
                            .dy = s.dy,
                            .dsums = dsums,
                            .dgamma = dgamma,
                            .dbeta = dbeta,
                            .partial = of_dsums};
  });
  report("batch_norm_bwd", 3, [&](const Set& s) {
    return BatchNormBwd{.x = s.x,
                        .weight = weight,
                        .mean = mean,
                        .mean_low = low,
                        .var = var,
                        .gamma = gamma,
                        .dy = s.dy,
                        .sums = sums,
                        .dsums = dsums,
                        .dx = s.y};
  });
  report("dice_fwd", 2, [&](const Set& s) {
    return DiceFwd{.x = s.x, .mean = mean, .mean_low = low, .var = var, .y = s.y, .alpha = 0.2};
  });
  report("dice_bwd_sums", 2, [&](const Set& s) {
    return DiceBwdSums{.x = s.x,
                       .mean = mean,
                       .mean_low = low,
                       .var = var,
                       .dy = s.dy,
                       .dsums = dsums,
                       .partial = of_dsums,
                       .alpha = 0.2};
  });
  report("dice_bwd", 3, [&](const Set& s) {
    return DiceBwd{.x = s.x,
                   .weight = weight,
                   .mean = mean,
                   .mean_low = low,
                   .var = var,
                   .dy = s.dy,
                   .sums = sums,
                   .dsums = dsums,
                   .dx = s.y,
                   .alpha = 0.2};
  });
}

void Bench::run() {
  std::printf("{\"device\": \"%s\", \"copy_gb_per_s\": %.0f}\n", timer_.device_name().c_str(),
              timer_.copy_gb_per_s());
  for (const auto dtype : {TensorScalarType::BFloat16, TensorScalarType::Float32}) {
    for (const Shape& shape : {Shape{4096, 50, 64}, Shape{4096, 200, 64}, Shape{65536, 1024}}) {
      start(dtype, shape);
      time_rows();
      time_statistics();
    }
  }
  timer_.reset();
}

}  // namespace

int main(int argc, char** argv) {
  Bench(std::vector<std::string>(argv + 1, argv + argc)).run();
  return 0;
}
