// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/registry.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace hugectr {

namespace {

std::vector<LayerFactory> all_layers() {
  std::vector<LayerFactory> all = {
      {"Add", &make_add},
      {"BatchNorm", &make_batch_norm},
      {"Cast", &make_cast},
      {"Concat", &make_concat},
      {"DotProduct", &make_dot_product},
      {"Dropout", &make_dropout},
      {"ElementwiseMultiply", &make_elementwise_multiply},
      {"FmOrder2", &make_fm_order2},
      {"FusedInnerProduct", &make_fused_inner_product},
      {"InnerProduct", &make_inner_product},
      {"Interaction", &make_interaction},
      {"LayerNorm", &make_layer_norm},
      {"MLP", &make_mlp},
      {"MultiCross", &make_multi_cross},
      {"PReLU_Dice", &make_prelu_dice},
      {"ReduceSum", &make_reduce_sum},
      {"Reshape", &make_reshape},
      {"Slice", &make_slice},
      {"Softmax", &make_softmax},
      {"WeightMultiply", &make_weight_multiply},
  };
  std::ranges::copy(activation_layers(), std::back_inserter(all));
  std::ranges::copy(loss_layers(), std::back_inserter(all));
  std::ranges::sort(all, {},
                    [](const LayerFactory& layer) { return std::string_view(layer.type); });
  return all;
}

}  // namespace

const std::vector<LayerFactory>& layer_registry() {
  static const std::vector<LayerFactory> registry = all_layers();
  return registry;
}

}  // namespace hugectr
