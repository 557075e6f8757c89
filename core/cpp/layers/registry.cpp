// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/registry.hpp"

namespace hugectr {

const std::vector<LayerFactory>& layer_registry() {
  static const std::vector<LayerFactory> registry = {
      {"Add", &make_add},
      {"BatchNorm", &make_batch_norm},
      {"BinaryCrossEntropyLoss", &make_binary_cross_entropy_loss},
      {"Cast", &make_cast},
      {"Concat", &make_concat},
      {"DotProduct", &make_dot_product},
      {"Dropout", &make_dropout},
      {"ElementwiseMultiply", &make_elementwise_multiply},
      {"FmOrder2", &make_fm_order2},
      {"InnerProduct", &make_inner_product},
      {"Interaction", &make_interaction},
      {"MultiCross", &make_multi_cross},
      {"ReLU", &make_relu},
      {"ReduceSum", &make_reduce_sum},
      {"Reshape", &make_reshape},
      {"Sigmoid", &make_sigmoid},
      {"Slice", &make_slice},
      {"WeightMultiply", &make_weight_multiply},
  };
  return registry;
}

}  // namespace hugectr
