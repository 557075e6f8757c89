// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/cpp/layers/layer.hpp"

/// Initial values of dense parameters, drawn on the host by counter: value i depends on
/// (stream, i) only, so every device count starts from the same network.
namespace hugectr {

/// Overwrites all of `values`, whose size is the parameter's; `stream` as in Parameter::initialize.
using FillValues = std::function<void(std::uint64_t stream, std::vector<float>& values)>;

FillValues fill_constant(float value);
/// Uniform in [-bound, bound).
FillValues fill_uniform(double bound);
/// Normal with mean 0.
FillValues fill_normal(double deviation);

/// Values of a weight that maps `in` inputs to `out` outputs, avg = (in + out) / 2:
/// Uniform +-1/(in+out), XavierUniform +-sqrt(3/avg), XavierNorm N(0, sqrt(1/avg)/0.8796), Zero.
/// Default takes `fallback`.
FillValues weight_values(Initializer kind, Initializer fallback, std::size_t in, std::size_t out);

/// Values of a bias of `out` outputs, avg = out / 2: Default N(0, sqrt(1/out)), Uniform +-1/out,
/// XavierUniform +-sqrt(3/avg), XavierNorm N(0, sqrt(1/avg)/0.8796), Zero.
FillValues bias_values(Initializer kind, std::size_t out);

/// Declares "<layer>.<what>" (n), the scale or shift of a normalisation: all `standard`, unless the
/// layer's "<what>_init_type" says otherwise.
TensorRef declare_scale(const Layer& layer, LayerBuilder& builder, const std::string& what,
                        float standard, std::size_t n);

}  // namespace hugectr
