// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <map>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/gather_rows.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/row_units.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Rows as runs of Units, whatever they hold.
template <class Unit>
struct Gather {
  std::size_t units_per_row, count;
  FastDivide units;
  const std::uint32_t* rows;
  const Unit* source;
  Unit* values;

  explicit Gather(const GatherRows& op)
      : units_per_row(op.source.row_size() * size_of(op.source.dtype) / sizeof(Unit)),
        count(op.rows.size() * units_per_row),
        units(units_per_row),
        rows(op.rows.ptr<std::uint32_t>()),
        source(static_cast<const Unit*>(op.source.data)),
        values(static_cast<Unit*>(op.values.data)) {}
  unsigned blocks() const { return grid_for(count, kThreads); }

  // Moves every byte of values in and out once.
  __device__ void move() const {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t t = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count;
         t += step) {
      std::size_t unit;
      const std::uint32_t row = rows[units.divide(t, unit)];
      if (row != kNoRow) values[t] = source[row * units_per_row + unit];
    }
  }
};

template <class Unit>
__global__ void gather_rows_kernel(Gather<Unit> a) {
  a.move();
}
template <class Unit>
__global__ void gather_many_rows_kernel(const __grid_constant__ Many<Gather<Unit>> many) {
  many.mine().move();
}

std::size_t unit_of(const GatherRows& op) {
  return row_unit(op.source.row_size() * size_of(op.source.dtype), op.values.data, op.source.data);
}

void gather_rows(const OpContext& context, const GatherRows& op) {
  with_row_unit(unit_of(op), [&]<class Unit>(Unit) {
    const Gather<Unit> args(op);
    launch(context, GatherRows::kName, dim3(args.blocks()), dim3(kThreads), 0,
           &gather_rows_kernel<Unit>, args);
  });
}

void gather_many_rows(const OpContext& context, const Several<GatherRows>& several) {
  std::map<std::size_t, std::vector<const GatherRows*>> alike;
  for (const GatherRows& op : several.ops) {
    if (op.rows.size() > 0) alike[unit_of(op)].push_back(&op);
  }
  for (const auto& [unit, ops] : alike) {
    with_row_unit(unit, [&]<class Unit>(Unit) {
      std::vector<Gather<Unit>> all;
      for (const GatherRows* op : ops) all.emplace_back(*op);
      launch_many<Gather<Unit>>(context, GatherRows::kSeveralName, all, dim3(kThreads),
                                &gather_many_rows_kernel<Unit>,
                                [](const Gather<Unit>& args) { return args.blocks(); });
    });
  }
}

const OpRegistration<GatherRows> gather_rows_cuda{DeviceType::Cuda, &gather_rows};
const SeveralRegistration<GatherRows> several_gather_rows_cuda{DeviceType::Cuda, &gather_many_rows};

}  // namespace
}  // namespace hugectr::cuda
