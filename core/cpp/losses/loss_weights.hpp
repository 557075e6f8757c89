// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

/// What the losses of a model need beside their own formula: weights of samples out of a column of
/// the data, which of them count in metrics, and the sum of several losses.
namespace hugectr {

/// product_i = weight_i * column_i; sum = sum_i product_i
///
/// weight: (batch) float32, 0 for padding, whose column is not looked at; column: (batch, 1)
/// float32, rows may be strided; product: (batch) float32; sum: (1) float64; partial:
/// (partial_rows(batch)) float64 scratch. Overwrites. Deterministic.
struct HCTR_API WeightProduct {
  static constexpr const char* kName = "weight_product";
  TensorRef weight, column, product, sum, partial;
  void visit(OpVisitor& v) {
    v.tensor("weight", Access::In, weight);
    v.tensor("column", Access::In, column);
    v.tensor("product", Access::Out, product);
    v.tensor("sum", Access::Out, sum);
    v.tensor("partial", Access::Out, partial);
  }
  void check() const;
};

/// inverse = 1 / sum, 0 where the sum is not positive.
///
/// sum: (1) float64; inverse: (1) float32. Overwrites. Deterministic.
struct HCTR_API InverseSum {
  static constexpr const char* kName = "inverse_sum";
  TensorRef sum, inverse;
  void visit(OpVisitor& v) {
    v.tensor("sum", Access::In, sum);
    v.tensor("inverse", Access::Out, inverse);
  }
  void check() const;
};

/// known_ji = weight_i where labels_ij >= least, else 0
///
/// labels: (batch, n) float32, rows may be strided; weight: (batch) float32; known: (n, batch)
/// float32, a row a label. Overwrites. Deterministic.
struct HCTR_API KnownLabels {
  static constexpr const char* kName = "known_labels";
  TensorRef labels, weight, known;
  double least = 0.0;
  void visit(OpVisitor& v) {
    v.tensor("labels", Access::In, labels);
    v.tensor("weight", Access::In, weight);
    v.tensor("known", Access::Out, known);
    v.attribute("least", least);
  }
  void check() const;
};

/// Most losses of a model: they are arguments of a kernel.
inline constexpr std::size_t kMostLosses = 64;

/// total = sum_t weights_t losses_t, in their order
///
/// losses: at most 64 tensors (1) float32; total: (1) float32, overwritten. Deterministic.
struct HCTR_API TotalLoss {
  static constexpr const char* kName = "total_loss";
  std::vector<TensorRef> losses;
  TensorRef total;
  std::vector<double> weights;
  void visit(OpVisitor& v) {
    v.tensors("losses", Access::In, losses);
    v.tensor("total", Access::Out, total);
    v.attribute("weights", weights);
  }
  void check() const;
};

}  // namespace hugectr
