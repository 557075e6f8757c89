// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/losses/loss_weights.hpp"

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {
namespace {

void check_doubles(const char* op, const char* name, const TensorRef& ref, std::size_t count) {
  HCTR_CHECK(ref.dtype == TensorScalarType::Float64 && ref.shape == Shape{count}, op, ": ", name,
             " must be float64 of shape ", to_string(Shape{count}), ", found ",
             to_string(ref.dtype), " ", to_string(ref.shape));
}

void weight_product(const OpContext& ctx, const WeightProduct& op) {
  const float* weight = op.weight.ptr<float>();
  float* product = op.product.ptr<float>();
  double* partial = op.partial.ptr<double>();
  const std::size_t piece = samples_per_partial(op.weight.rows());
  parallel_for(*ctx.pool, op.weight.rows(), piece, [&](std::size_t begin, std::size_t end) {
    double sum = 0.0;
    for (std::size_t i = begin; i < end; ++i) {
      product[i] = weight[i] != 0.0f ? weight[i] * *op.column.row<float>(i) : 0.0f;
      sum += static_cast<double>(product[i]);
    }
    partial[begin / piece] = sum;
  });
  double total = 0.0;
  for (std::size_t i = 0; i < op.partial.rows(); ++i) total += partial[i];
  *op.sum.ptr<double>() = total;
}

void inverse_sum(const OpContext&, const InverseSum& op) {
  const double sum = *op.sum.ptr<double>();
  *op.inverse.ptr<float>() = sum > 0.0 ? static_cast<float>(1.0 / sum) : 0.0f;
}

void known_labels(const OpContext& ctx, const KnownLabels& op) {
  const float* weight = op.weight.ptr<float>();
  const auto least = static_cast<float>(op.least);
  const std::size_t n = op.known.rows();
  parallel_for(*ctx.pool, op.labels.rows(), 4096, [&](std::size_t begin, std::size_t end) {
    for (std::size_t j = 0; j < n; ++j) {
      float* known = op.known.row<float>(j);
      for (std::size_t i = begin; i < end; ++i) {
        known[i] = op.labels.row<float>(i)[j] >= least ? weight[i] : 0.0f;
      }
    }
  });
}

void total_loss(const OpContext&, const TotalLoss& op) {
  float total = 0.0f;
  for (std::size_t t = 0; t < op.losses.size(); ++t) {
    total += static_cast<float>(op.weights[t]) * *op.losses[t].ptr<float>();
  }
  *op.total.ptr<float>() = total;
}

const OpRegistration<WeightProduct> weight_product_cpu{DeviceType::Cpu, &weight_product};
const OpRegistration<InverseSum> inverse_sum_cpu{DeviceType::Cpu, &inverse_sum};
const OpRegistration<KnownLabels> known_labels_cpu{DeviceType::Cpu, &known_labels};
const OpRegistration<TotalLoss> total_loss_cpu{DeviceType::Cpu, &total_loss};

}  // namespace

void WeightProduct::check() const {
  check_packed_float(kName, "weight", weight, {weight.rows()});
  check_float(kName, "column", column, {weight.rows(), 1});
  check_packed_float(kName, "product", product, weight.shape);
  check_doubles(kName, "sum", sum, 1);
  check_doubles(kName, "partial", partial, partial_rows(weight.rows()));
}

void InverseSum::check() const {
  check_doubles(kName, "sum", sum, 1);
  check_packed_float(kName, "inverse", inverse, {1});
}

void KnownLabels::check() const {
  check_float(kName, "labels", labels);
  HCTR_CHECK(labels.shape.size() == 2, kName, ": labels have shape ", to_string(labels.shape),
             ", must be (batch, labels)");
  check_packed_float(kName, "weight", weight, {labels.rows()});
  check_packed_float(kName, "known", known, {labels.shape[1], labels.rows()});
}

void TotalLoss::check() const {
  HCTR_CHECK(losses.size() <= kMostLosses, kName, ": there are ", losses.size(),
             " losses, at most ", kMostLosses, " can be summed");
  HCTR_CHECK(losses.size() == weights.size(), kName, ": there are ", losses.size(), " losses and ",
             weights.size(), " weights");
  for (const TensorRef& loss : losses) check_packed_float(kName, "losses", loss, {1});
  check_packed_float(kName, "total", total, {1});
}

}  // namespace hugectr
