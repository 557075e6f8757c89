// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cpp/layers/layer.hpp"
#include "core/cpp/ops/linear.hpp"

/// y = act(x w + b) inside a layer: its parameters, its records. What InnerProduct,
/// FusedInnerProduct and MLP are made of. A chain of them is fused by fuse_linear_backward.
namespace hugectr {

class LinearPart {
 public:
  struct Options {
    std::string number;  ///< ends the names of parameters and scratch: "" or "0", "1", ...
    std::size_t outputs = 1;
    Activation activation = Activation::Non;
    bool bias = true;
  };

  /// Declares "<layer>.weight<number>" (n, m) and "<layer>.bias<number>" (m) by the layer's
  /// `weight_init_type` (XavierNorm) and `bias_init_type` (N(0, sqrt(1 / m))), and appends the
  /// forward record. x: (.., n), y: (.., m).
  void forward(LayerBuilder& builder, const Layer& layer, const Options& options,
               const TensorRef& x, const TensorRef& y);
  /// Appends the backward record. dx may be empty.
  void backward(LayerBuilder& builder, const TensorRef& dy, const TensorRef& dx) const;

 private:
  void declare_parameters(LayerBuilder& builder, const Attributes& attributes);

  Options options_;
  std::string layer_;
  TensorRef x_, weight_, bias_, y_;
};

/// The shape of x with `outputs` as its last dimension.
Shape linear_shape(const TensorRef& x, std::size_t outputs);

/// Throws InvalidArgument naming the layer unless the first bottom has two dimensions or more.
void check_linear_bottom(const Layer& layer, const TensorRef& x);

/// What "Relu" and "Non" name; InvalidArgument naming the layer for another word.
Activation read_activation(const Layer& layer, const std::string& word);

/// `num_output` of a layer; at least 1.
std::size_t read_num_output(const Layer& layer);

}  // namespace hugectr
