// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/layers/initializer.hpp"

#include <cmath>
#include <numbers>

#include "core/cpp/base/random.hpp"

namespace hugectr {
namespace {

// Standard deviation of a normal cut off at two deviations: what the original divides by although
// it does not cut off. Kept, so that networks start alike.
constexpr double kTruncatedDeviation = 0.8796;

FillValues xavier(Initializer kind, double avg) {
  return kind == Initializer::XavierUniform
             ? fill_uniform(std::sqrt(3.0 / avg))
             : fill_normal(std::sqrt(1.0 / avg) / kTruncatedDeviation);
}

// In (0, 1): the logarithm of it is finite.
double open_unit(std::uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

}  // namespace

FillValues fill_constant(float value) {
  return [value](std::uint64_t, std::vector<float>& values) {
    for (float& v : values) v = value;
  };
}

FillValues fill_uniform(double bound) {
  const auto limit = static_cast<float>(bound);
  return [limit](std::uint64_t stream, std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); i += 4) {
      const Philox4 words = philox4x32(stream, i / 4, 0);
      for (std::size_t k = 0; k < 4 && i + k < values.size(); ++k) {
        values[i + k] = symmetric_float(words.x[k], limit);
      }
    }
  };
}

// Box-Muller: a pair of words gives a pair of values.
FillValues fill_normal(double deviation) {
  return [deviation](std::uint64_t stream, std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); i += 4) {
      const Philox4 words = philox4x32(stream, i / 4, 0);
      for (std::size_t k = 0; k < 4 && i + k < values.size(); ++k) {
        const std::size_t pair = k & ~std::size_t{1};
        const double radius = deviation * std::sqrt(-2.0 * std::log(open_unit(words.x[pair])));
        const double angle = 2.0 * std::numbers::pi * open_unit(words.x[pair + 1]);
        values[i + k] =
            static_cast<float>(radius * (k == pair ? std::cos(angle) : std::sin(angle)));
      }
    }
  };
}

FillValues weight_values(Initializer kind, Initializer fallback, std::size_t in, std::size_t out) {
  if (kind == Initializer::Default) kind = fallback;
  const auto sum = static_cast<double>(in + out);
  if (kind == Initializer::Zero) return fill_constant(0.0f);
  if (kind == Initializer::Uniform) return fill_uniform(1.0 / sum);
  return xavier(kind, sum / 2.0);
}

FillValues bias_values(Initializer kind, std::size_t out) {
  const auto count = static_cast<double>(out);
  if (kind == Initializer::Zero) return fill_constant(0.0f);
  if (kind == Initializer::Uniform) return fill_uniform(1.0 / count);
  if (kind == Initializer::Default) return fill_normal(std::sqrt(1.0 / count));
  return xavier(kind, count / 2.0);
}

TensorRef declare_scale(const Layer& layer, LayerBuilder& builder, const std::string& what,
                        float standard, std::size_t n) {
  const Initializer kind = layer.spec().attributes.get_initializer(what + "_init_type");
  return builder.parameter({.name = layer.name() + "." + what,
                            .layer = layer.name(),
                            .shape = {n},
                            .initialize = kind == Initializer::Default ? fill_constant(standard)
                                                                       : bias_values(kind, n)});
}

}  // namespace hugectr
