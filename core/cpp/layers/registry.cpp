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
      {"FusedReshapeConcat", &make_fused_reshape_concat},
      {"FusedReshapeConcatGeneral", &make_fused_reshape_concat_general},
      {"GRU", &make_gru},
      {"Gather", &make_gather},
      {"InnerProduct", &make_inner_product},
      {"Interaction", &make_interaction},
      {"MatrixMultiply", &make_matrix_multiply},
      {"MultiCross", &make_multi_cross},
      {"MultiHeadAttention", &make_multi_head_attention},
      {"ReduceMean", &make_reduce_mean},
      {"ReduceSum", &make_reduce_sum},
      {"Reshape", &make_reshape},
      {"Scale", &make_scale},
      {"Select", &make_select},
      {"SequenceMask", &make_sequence_mask},
      {"Slice", &make_slice},
      {"Sub", &make_sub},
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
