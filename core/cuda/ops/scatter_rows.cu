// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <map>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/scatter_rows.hpp"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/row_units.cuh"
#include "core/cuda/primitives/rows.cuh"

namespace hugectr::cuda {
namespace {

// Rows as runs of Units, whatever they hold.
template <class Unit>
struct Scatter {
  std::size_t units_per_row, count;
  FastDivide units;
  const std::uint32_t* rows;
  const Unit* values;
  Unit* target;

  explicit Scatter(const ScatterRows& op)
      : units_per_row(op.target.row_size() * size_of(op.target.dtype) / sizeof(Unit)),
        count(op.rows.size() * units_per_row),
        units(units_per_row),
        rows(op.rows.ptr<std::uint32_t>()),
        values(static_cast<const Unit*>(op.values.data)),
        target(static_cast<Unit*>(op.target.data)) {}
  unsigned blocks() const { return grid_for(count, kThreads); }

  // Moves every byte of values in and out once.
  __device__ void move() const {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t t = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count;
         t += step) {
      std::size_t unit;
      const std::uint32_t row = rows[units.divide(t, unit)];
      if (row != kNoRow) target[row * units_per_row + unit] = values[t];
    }
  }
};

template <class Unit>
__global__ void scatter_rows_kernel(Scatter<Unit> a) {
  a.move();
}
template <class Unit>
__global__ void scatter_many_rows_kernel(const __grid_constant__ Many<Scatter<Unit>> many) {
  many.mine().move();
}

std::size_t unit_of(const ScatterRows& op) {
  return row_unit(op.target.row_size() * size_of(op.target.dtype), op.values.data, op.target.data);
}

void scatter_rows(const OpContext& context, const ScatterRows& op) {
  with_row_unit(unit_of(op), [&]<class Unit>(Unit) {
    const Scatter<Unit> args(op);
    launch(context, ScatterRows::kName, dim3(args.blocks()), dim3(kThreads), 0,
           &scatter_rows_kernel<Unit>, args);
  });
}

void scatter_many_rows(const OpContext& context, const Several<ScatterRows>& several) {
  std::map<std::size_t, std::vector<const ScatterRows*>> alike;
  for (const ScatterRows& op : several.ops) {
    if (op.rows.size() > 0) alike[unit_of(op)].push_back(&op);
  }
  for (const auto& [unit, ops] : alike) {
    with_row_unit(unit, [&]<class Unit>(Unit) {
      std::vector<Scatter<Unit>> all;
      for (const ScatterRows* op : ops) all.emplace_back(*op);
      launch_many<Scatter<Unit>>(context, ScatterRows::kSeveralName, all, dim3(kThreads),
                                 &scatter_many_rows_kernel<Unit>,
                                 [](const Scatter<Unit>& args) { return args.blocks(); });
    });
  }
}

const OpRegistration<ScatterRows> scatter_rows_cuda{DeviceType::Cuda, &scatter_rows};
const SeveralRegistration<ScatterRows> several_scatter_rows_cuda{DeviceType::Cuda,
                                                                 &scatter_many_rows};

}  // namespace
}  // namespace hugectr::cuda
