// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/linear_part.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// A stack of y = act(x w + b): (b, n) -> (b, last of num_outputs). A second bottom is a helper
/// (the second top of an Interaction) and is not read.
///
/// Attributes: `num_outputs`, one a product; `act_type` ("Relu" or "Non") for all, or
/// `activations`, one word a product with spaces between; `use_bias` (true) for all, or `biases`, 0
/// or 1 a product; `weight_init_type`, `bias_init_type` as of InnerProduct.
class MlpLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 2, 1);
    x_ = builder.bottom(spec().bottoms[0]);
    check_linear_bottom(*this, x_);
    HCTR_CHECK(spec().bottoms.size() == 1 || builder.is_helper(spec().bottoms[1]), "MLP layer \"",
               name(), "\": bottom \"", spec().bottoms.back(),
               "\" must be the second top of an Interaction");
    const std::vector<LinearPart::Options> all = read_options();
    parts_.resize(all.size());
    TensorRef x = x_;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Shape shape = linear_shape(x, all[i].outputs);
      const bool last = i + 1 == all.size();
      const TensorRef y =
          last ? builder.top(name(), shape) : builder.scratch(between("@y", i), shape);
      parts_[i].forward(builder, *this, all[i], x, y);
      x = y;
      shapes_.push_back(shape);
    }
  }

  void backward(LayerBuilder& builder) override {
    TensorRef dy = builder.gradient(name());
    for (std::size_t i = parts_.size(); i-- > 0;) {
      const TensorRef dx = i == 0 ? gradient_if_needed(builder, spec().bottoms[0])
                                  : builder.scratch(between("@dy", i - 1), shapes_[i - 1]);
      parts_[i].backward(builder, dy, dx);
      dy = dx;
    }
  }

 private:
  std::string between(const char* what, std::size_t i) const {
    return name() + what + std::to_string(i);
  }

  void check_count(const char* attribute, std::size_t found, std::size_t wanted) const {
    HCTR_CHECK(found == wanted, "MLP layer \"", name(), "\": ", attribute, " has ", found,
               " entries, must have one for each of ", wanted, " num_outputs");
  }

  std::vector<LinearPart::Options> read_options() const {
    const Attributes& attributes = spec().attributes;
    const std::vector<std::int64_t> outputs = attributes.get_ints("num_outputs");
    HCTR_CHECK(!outputs.empty(), "MLP layer \"", name(),
               "\": num_outputs is empty, must have one number a product");
    const std::vector<Activation> activations = read_activations(outputs.size());
    const std::vector<std::int64_t> biases = attributes.get_ints("biases");
    if (!biases.empty()) check_count("biases", biases.size(), outputs.size());
    const bool use_bias = attributes.get_bool("use_bias", true);
    std::vector<LinearPart::Options> all;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      HCTR_CHECK(outputs[i] > 0, "MLP layer \"", name(), "\": num_outputs has ", outputs[i],
                 ", must be at least 1");
      all.push_back({.number = std::to_string(i),
                     .outputs = static_cast<std::size_t>(outputs[i]),
                     .activation = activations[i],
                     .bias = biases.empty() ? use_bias : biases[i] != 0});
    }
    return all;
  }

  std::vector<Activation> read_activations(std::size_t count) const {
    const std::string of_all = spec().attributes.get_string("act_type", "Relu");
    std::istringstream words(spec().attributes.get_string("activations", ""));
    std::vector<Activation> result;
    for (std::string word; words >> word;) result.push_back(read_activation(*this, word));
    if (result.empty()) result.assign(count, read_activation(*this, of_all));
    check_count("activations", result.size(), count);
    return result;
  }

  std::vector<LinearPart> parts_;
  std::vector<Shape> shapes_;
  TensorRef x_;
};

}  // namespace

std::unique_ptr<Layer> make_mlp(const DenseLayerSpec& spec) {
  return std::make_unique<MlpLayer>(spec);
}

}  // namespace hugectr
