// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/cast.hpp"

#include "core/cpp/layers/bottoms.hpp"
#include "core/cpp/layers/registry.hpp"

namespace hugectr {
namespace {

/// The same values in another element type.
/// Attributes: `dtype` = "float32", "float16" or "bfloat16"; absent: from float32 the type that the
/// network computes in, so that a float32 network has a copy, and from 16 bits float32.
class CastLayer final : public Layer {
 public:
  using Layer::Layer;

  void forward(LayerBuilder& builder) override {
    expect(1, 1, 1);
    const TensorRef x = builder.bottom(spec().bottoms[0]);
    const TensorRef y = builder.top(name(), x.shape, target(x.dtype, builder.info()));
    builder.forward(Cast{.x = x, .y = y}, name());
    pass_on_no_gradient(*this, builder);
  }

  void backward(LayerBuilder& builder) override {
    if (!builder.needs_gradient(spec().bottoms[0])) return;
    builder.backward(Cast{.x = builder.gradient(name()), .y = builder.gradient(spec().bottoms[0])},
                     name());
  }

 private:
  TensorScalarType target(TensorScalarType from, const BuildInfo& info) const {
    constexpr TensorScalarType kWide = TensorScalarType::Float32;
    const std::string wanted = spec().attributes.get_string(
        "dtype", to_string(from == kWide ? info.compute_dtype : kWide));
    for (const TensorScalarType type :
         {TensorScalarType::Float32, TensorScalarType::Float16, TensorScalarType::BFloat16}) {
      if (wanted == to_string(type)) return type;
    }
    throw InvalidArgument(concat("Cast layer \"", name(), "\": dtype is \"", wanted, "\", must be ",
                                 to_string(TensorScalarType::Float32), ", ",
                                 to_string(TensorScalarType::Float16), " or ",
                                 to_string(TensorScalarType::BFloat16)));
  }
};

}  // namespace

std::unique_ptr<Layer> make_cast(const DenseLayerSpec& spec) {
  return std::make_unique<CastLayer>(spec);
}

}  // namespace hugectr
