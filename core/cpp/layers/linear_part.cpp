// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/linear_part.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/initializer.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {

void LinearPart::forward(LayerBuilder& builder, const Layer& layer, const Options& options,
                         const TensorRef& x, const TensorRef& y) {
  options_ = options;
  layer_ = layer.name();
  x_ = x;
  y_ = y;
  declare_parameters(builder, layer.spec().attributes);
  builder.forward(
      LinearFwd{.x = x_, .w = weight_, .b = bias_, .y = y_, .activation = options_.activation},
      layer_);
}

void LinearPart::declare_parameters(LayerBuilder& builder, const Attributes& attributes) {
  const std::size_t in = x_.shape.back(), out = options_.outputs;
  weight_ =
      builder.parameter({.name = layer_ + ".weight" + options_.number,
                         .layer = layer_,
                         .shape = {in, out},
                         .initialize = weight_values(attributes.get_initializer("weight_init_type"),
                                                     Initializer::XavierNorm, in, out)});
  if (!options_.bias) return;
  bias_ = builder.parameter(
      {.name = layer_ + ".bias" + options_.number,
       .layer = layer_,
       .shape = {out},
       .initialize = bias_values(attributes.get_initializer("bias_init_type"), out)});
}

void LinearPart::backward(LayerBuilder& builder, const TensorRef& dy, const TensorRef& dx) const {
  LinearBwd op{.x = x_, .w = weight_, .dy = dy, .dx = dx};
  op.dw = builder.parameter_gradient(weight_);
  if (options_.bias) {
    op.db = builder.parameter_gradient(bias_);
    op.partial = builder.scratch(layer_ + "@partial" + options_.number,
                                 {partial_rows(x_.size() / x_.shape.back()), options_.outputs},
                                 TensorScalarType::Float32);
  }
  op.activation = options_.activation;
  if (options_.activation == Activation::Relu) {
    op.y = y_;
    op.dz = builder.scratch(layer_ + "@dz" + options_.number, y_.shape);
  }
  builder.backward(op, layer_);
}

Shape linear_shape(const TensorRef& x, std::size_t outputs) {
  Shape shape = x.shape;
  shape.back() = outputs;
  return shape;
}

void check_linear_bottom(const Layer& layer, const TensorRef& x) {
  check_bottom(layer, 0, x, x.shape.size() >= 2, "(batch, columns) or (batch, steps, columns)");
}

Activation read_activation(const Layer& layer, const std::string& word) {
  HCTR_CHECK(word == "Relu" || word == "Non", layer.spec().type, " layer \"", layer.name(),
             "\": the activation is \"", word, "\", must be \"Relu\" or \"Non\"");
  return word == "Relu" ? Activation::Relu : Activation::Non;
}

std::size_t read_num_output(const Layer& layer) {
  const std::int64_t outputs = layer.spec().attributes.get_int("num_output", 1);
  HCTR_CHECK(outputs > 0, layer.spec().type, " layer \"", layer.name(), "\": num_output is ",
             outputs, ", must be at least 1");
  return static_cast<std::size_t>(outputs);
}

}  // namespace hugectr
