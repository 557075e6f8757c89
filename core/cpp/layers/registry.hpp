// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "core/cpp/layers/layer.hpp"

/// The layer types there are. A new layer is one .cpp with its class and a make_ function, one
/// declaration here and one line in registry.cpp. Activations and losses come from
/// their catalogues.
namespace hugectr {

struct LayerFactory {
  const char* type;  ///< Layer_t name
  std::unique_ptr<Layer> (*make)(const DenseLayerSpec& spec);
};

/// All layer types, sorted by name.
const std::vector<LayerFactory>& layer_registry();

/// One for each entry of the catalogue in core/cpp/ops/elementwise.
std::vector<LayerFactory> activation_layers();
/// One for each entry of the catalogue in core/cpp/losses.
std::vector<LayerFactory> loss_layers();

std::unique_ptr<Layer> make_add(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_batch_norm(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_cast(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_concat(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_dot_product(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_dropout(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_elementwise_multiply(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_fm_order2(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_fused_reshape_concat(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_fused_reshape_concat_general(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_gather(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_gru(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_inner_product(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_interaction(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_matrix_multiply(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_multi_cross(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_multi_head_attention(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_reduce_mean(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_reduce_sum(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_reshape(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_scale(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_select(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_sequence_mask(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_slice(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_sub(const DenseLayerSpec& spec);
std::unique_ptr<Layer> make_weight_multiply(const DenseLayerSpec& spec);

}  // namespace hugectr
