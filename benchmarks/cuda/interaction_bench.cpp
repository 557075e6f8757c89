// SPDX-License-Identifier: Apache-2.0
// Times DLRM's pairwise dot products, forward and backward, against the copy bandwidth.
//
//   interaction_bench [batch] [slots] [width ...]
//
// Prints one JSON object a line: shape, dtype, milliseconds, GB/s of the bytes that must move, and
// their share of what a device-to-device copy moves in the same run.
#include <cstdlib>

#include "benchmarks/cuda/op_timer.hpp"
#include "core/cpp/ops/interaction.hpp"

using namespace hugectr;  // NOLINT

int main(int argc, char** argv) {
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::size_t batch = number(1, 65536), slots = number(2, 26);
  std::vector<std::size_t> widths;
  for (int i = 3; i < argc; ++i) widths.push_back(number(i, 0));
  if (widths.empty()) widths = {16, 32, 64, 128, 256};
  OpTimer timer;
  std::printf("{\"device\": \"%s\", \"copy_gb_per_s\": %.0f}\n", timer.device_name().c_str(),
              timer.copy_gb_per_s());
  for (const auto dtype :
       {TensorScalarType::BFloat16, TensorScalarType::Float16, TensorScalarType::Float32}) {
    for (const std::size_t width : widths) {
      const std::size_t columns = interaction_width(slots, width);
      const auto rows = static_cast<double>(batch * size_of(dtype));
      const double in = rows * static_cast<double>((slots + 1) * width);
      const double out = rows * static_cast<double>(columns);
      std::vector<AnyOp> forward, backward;
      const std::size_t sets = OpTimer::sets_for(static_cast<std::size_t>(in));
      for (std::size_t i = 0; i < sets; ++i) {
        const TensorRef mlp = timer.random(dtype, {batch, width});
        const TensorRef emb = timer.random(dtype, {batch, slots, width});
        const TensorRef y = timer.random(dtype, {batch, columns});
        const TensorRef dmlp = timer.random(dtype, mlp.shape);
        const TensorRef demb = timer.random(dtype, emb.shape);
        forward.emplace_back(InteractionFwd{.mlp = mlp, .emb = emb, .y = y});
        backward.emplace_back(
            InteractionBwd{.mlp = mlp, .emb = emb, .dy = y, .dmlp = dmlp, .demb = demb});
      }
      const auto fields = [&](const char* op) {
        return concat("\"op\": \"", op, "\", \"batch\": ", batch, ", \"slots\": ", slots,
                      ", \"width\": ", width, ", \"dtype\": \"", to_string(dtype), "\"");
      };
      timer.print(fields("interaction_fwd"), in + out, timer.time(forward));
      timer.print(fields("interaction_bwd"), 2 * in + out, timer.time(backward));
      timer.reset();
    }
  }
  return 0;
}
