// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/gru.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/initializer.hpp"
#include "core/cpp/layers/registry.hpp"
#include "core/cpp/ops/gemm.hpp"
#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/reshape.hpp"

namespace hugectr {
namespace {

/// A gated recurrent unit, one layer, forward in time; the tops are the states of all steps.
///
///   (b, t, n) -> (b, t, h);  (b, t * n) -> (b, t * h);  (1, b * t * n) -> (1, b * t * h);
///   (b * t, n) -> (b * t, h), the steps of a sample one after the other
///
/// Attributes: `num_output` = h, `SeqLength` = t, `vector_size` = n, `weight_init_type`
/// (XavierNorm), `bias_init_type` (Zero). Parameters lie as in cuDNN's packed weights with one
/// bias, which the input side has: input weights (3 h, n), recurrent weights (3 h, h), bias (3 h);
/// rows are those of the reset gate, the update gate, the new state.
class GruLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    read_sizes(x);
    declare_parameters(builder);
    const std::size_t rows = samples_ * steps_;
    x_ = builder.scratch(name() + "@x", {rows, inputs_});
    const TensorRef projected = builder.scratch(name() + "@projected", {rows, 3 * units_});
    gates_ = builder.scratch(name() + "@gates", {rows, 4 * units_});
    const Shape states{samples_, steps_, units_};
    builder.forward(ReshapeFwd{.x = x, .y = x_}, name());
    builder.forward(Gemm{.a = x_, .b = input_, .c = projected, .transpose_b = true}, name());
    y_ = builder.top(x.shape.size() == 3 ? name() : name() + "@states", states);
    builder.forward(
        GruFwd{.x = projected, .bias = bias_, .w = recurrent_, .y = y_, .gates = gates_}, name());
    if (x.shape.size() == 3) return;
    const TensorRef top =
        builder.top(name(), {x.shape[0], samples_ * steps_ * units_ / x.shape[0]});
    builder.forward(ReshapeFwd{.x = y_, .y = top}, name());
  }

  void backward(LayerBuilder& builder) override {
    const std::string& bottom = spec().bottoms[0];
    const std::size_t rows = samples_ * steps_;
    TensorRef dy = builder.gradient(name());
    if (builder.bottom(bottom).shape.size() != 3) {
      const TensorRef flat = dy;
      dy = builder.scratch(name() + "@dstates", y_.shape);
      builder.backward(ReshapeFwd{.x = flat, .y = dy}, name());
    }
    const TensorRef dx = builder.scratch(name() + "@dprojected", {rows, 3 * units_});
    const TensorRef ds = builder.scratch(name() + "@drecurrent", {rows, 3 * units_});
    const TensorRef before = builder.scratch(name() + "@before", {rows, units_});
    builder.backward(
        GruBwd{.w = recurrent_,
               .y = y_,
               .gates = gates_,
               .dy = dy,
               .dx = dx,
               .ds = ds,
               .before = before,
               .dbias = builder.parameter_gradient(bias_),
               .partial = builder.scratch(name() + "@partial", {gru_slices(samples_), 3 * units_},
                                          TensorScalarType::Float32)},
        name());
    // The weights are stored transposed, so factors change places: dw^T = dx^T x.
    builder.backward(
        LinearBwd{.x = dx, .w = input_, .dy = x_, .dw = builder.parameter_gradient(input_)},
        name());
    builder.backward(
        LinearBwd{
            .x = ds, .w = recurrent_, .dy = before, .dw = builder.parameter_gradient(recurrent_)},
        name());
    if (!builder.needs_gradient(bottom)) return;
    const TensorRef back = builder.scratch(name() + "@dx", {rows, inputs_});
    builder.backward(LinearFwd{.x = dx, .w = input_, .y = back}, name());
    builder.backward(ReshapeFwd{.x = back, .y = builder.gradient(bottom)}, name());
  }

 private:
  std::size_t read(const char* attribute) const {
    const std::int64_t value = spec().attributes.get_int(attribute, 1);
    HCTR_CHECK(value >= 1, "GRU layer \"", name(), "\": ", attribute, " is ", value,
               ", must be at least 1");
    return static_cast<std::size_t>(value);
  }

  void read_sizes(const TensorRef& x) {
    units_ = read("num_output");
    steps_ = read("SeqLength");
    inputs_ = read("vector_size");
    const std::size_t sample = steps_ * inputs_;
    const std::string wanted =
        concat("(batch, ", steps_, ", ", inputs_, "), (batch, ", sample, "), (batch * ", steps_,
               ", ", inputs_, ") or (1, batch * ", sample, "), as SeqLength and vector_size say");
    const bool steps = x.shape.size() == 3 && x.shape[1] == steps_ && x.shape[2] == inputs_;
    const bool flat = x.shape.size() == 2 &&
                      (x.shape[1] == sample || (x.shape[0] == 1 && x.shape[1] % sample == 0));
    const bool apart = x.shape.size() == 2 && x.shape[1] == inputs_ && x.shape[0] % steps_ == 0;
    check_bottom(*this, 0, x, steps || flat || apart, wanted);
    samples_ = x.size() / sample;
  }

  void declare_parameters(LayerBuilder& builder) {
    const Initializer weight = spec().attributes.get_initializer("weight_init_type");
    Initializer bias = spec().attributes.get_initializer("bias_init_type");
    if (bias == Initializer::Default) bias = Initializer::Zero;
    const auto declare = [&](const char* what, const Shape& shape, const FillValues& values) {
      return builder.parameter({.name = concat(name(), ".", what),
                                .layer = name(),
                                .shape = shape,
                                .initialize = values});
    };
    input_ = declare("input_weight", {3 * units_, inputs_},
                     weight_values(weight, Initializer::XavierNorm, inputs_, units_));
    recurrent_ = declare("recurrent_weight", {3 * units_, units_},
                         weight_values(weight, Initializer::XavierNorm, units_, units_));
    bias_ = declare("bias", {3 * units_}, bias_values(bias, units_));
  }

  std::size_t samples_ = 0, steps_ = 0, inputs_ = 0, units_ = 0;
  TensorRef input_, recurrent_, bias_, x_, gates_, y_;
};

}  // namespace

std::unique_ptr<Layer> make_gru(const DenseLayerSpec& spec) {
  return std::make_unique<GruLayer>(spec);
}

}  // namespace hugectr
