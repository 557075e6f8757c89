// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/layer.hpp"

#include <set>

#include "core/cpp/layers/registry.hpp"
#include "core/cpp/losses/losses.hpp"
#include "core/cpp/ops/elementwise/activations.hpp"

namespace hugectr {

void Layer::expect(std::size_t min_bottoms, std::size_t max_bottoms, std::size_t tops) const {
  const std::size_t bottoms = spec_.bottoms.size();
  HCTR_CHECK(!spec_.tops.empty(), spec_.type, " layer has no top: give it a name in top_names");
  if (max_bottoms == 0) {
    HCTR_CHECK(bottoms >= min_bottoms, spec_.type, " layer \"", name(), "\" has ", bottoms,
               " bottoms, needs at least ", min_bottoms);
  } else if (min_bottoms == max_bottoms) {
    HCTR_CHECK(bottoms == min_bottoms, spec_.type, " layer \"", name(), "\" has ", bottoms,
               " bottoms, needs exactly ", min_bottoms);
  } else {
    HCTR_CHECK(bottoms >= min_bottoms && bottoms <= max_bottoms, spec_.type, " layer \"", name(),
               "\" has ", bottoms, " bottoms, needs ", min_bottoms, " to ", max_bottoms);
  }
  HCTR_CHECK(spec_.tops.size() == tops, spec_.type, " layer \"", name(), "\" has ",
             spec_.tops.size(), " tops, needs exactly ", tops);
}

namespace {

/// What layers call their parameters: fields of activations and losses, and these.
std::set<std::string> parameter_names() {
  std::set<std::string> names = {"act_type",
                                 "activations",
                                 "axis",
                                 "batchsize",
                                 "beta_init_type",
                                 "bias_init_type",
                                 "biases",
                                 "compute_config",
                                 "copies",
                                 "dim",
                                 "dropout_rate",
                                 "dtype",
                                 "eps",
                                 "factor",
                                 "gamma_init_type",
                                 "index",
                                 "indices",
                                 "lambda",
                                 "leading_dim",
                                 "loss_weight",
                                 "max_sequence_len_from",
                                 "max_sequence_len_to",
                                 "num_attention_heads",
                                 "num_layers",
                                 "num_output",
                                 "num_outputs",
                                 "out_dim",
                                 "pos_type",
                                 "projection_dim",
                                 "ranges",
                                 "regularizer_type",
                                 "selected",
                                 "selected_slots",
                                 "SeqLength",
                                 "shape",
                                 "target_weight_vec",
                                 "time_step",
                                 "transpose_b",
                                 "use_bias",
                                 "use_regularizer",
                                 "vector_size",
                                 "weight_dims",
                                 "weight_init_type"};
  const auto add = [&](const auto& entries) {
    for (const auto& entry : entries) {
      for (const FieldDescription& field : entry.fields)
        names.insert(concat(entry.op, "_", field.name));
    }
  };
  add(describe_activations());
  add(describe_losses());
  return names;
}

std::string name_of(const DenseLayerSpec& spec) {
  return concat(spec.type, " layer \"", spec.tops.empty() ? "" : spec.tops.front(), '"');
}

/// Throws InvalidArgument for a name that no layer reads: its default would train without a word.
void check_parameters(const DenseLayerSpec& spec) {
  static const std::set<std::string> known = parameter_names();
  for (const auto& [name, value] : spec.attributes.values()) {
    if (known.contains(name)) continue;
    std::string all;
    for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
    throw InvalidArgument(
        concat(name_of(spec), ": no layer has a parameter \"", name, "\"; there are: ", all));
  }
}

}  // namespace

std::unique_ptr<Layer> make_layer(const DenseLayerSpec& spec) {
  for (const LayerFactory& factory : layer_registry()) {
    if (spec.type != factory.type) continue;
    check_parameters(spec);
    DenseLayerSpec named = spec;
    named.attributes.belong_to(name_of(spec));
    return factory.make(named);
  }
  std::string known;
  for (const std::string& type : layer_types()) known += (known.empty() ? "" : ", ") + type;
  throw InvalidArgument(concat("layer \"", spec.tops.empty() ? "" : spec.tops.front(),
                               "\": unknown layer type \"", spec.type, "\"; known types: ", known));
}

std::vector<std::string> layer_types() {
  std::vector<std::string> types;
  for (const LayerFactory& factory : layer_registry()) types.emplace_back(factory.type);
  return types;
}

}  // namespace hugectr
