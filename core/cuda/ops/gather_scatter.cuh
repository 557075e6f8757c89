// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <type_traits>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/gather_rows.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/scatter_rows.hpp"
#include "core/cuda/primitives/many.cuh"
#include "core/cuda/primitives/row_units.cuh"
#include "core/cuda/primitives/rows.cuh"

/// GatherRows and ScatterRows: the same walk, each byte in and out once, in either direction.
namespace hugectr::cuda {

inline const TensorRef& table_of(const GatherRows& op) { return op.source; }
inline const TensorRef& table_of(const ScatterRows& op) { return op.target; }

/// Rows as runs of Units, whatever they hold.
template <class Op, class Unit>
struct GatherScatter {
  static constexpr bool kGathers = std::is_same_v<Op, GatherRows>;
  template <class T>
  using Source = std::conditional_t<kGathers, const T, T>;
  template <class T>
  using Target = std::conditional_t<kGathers, T, const T>;

  std::size_t units_per_row, count;
  FastDivide units;
  const std::uint32_t* rows;
  Source<Unit>* table;
  Target<Unit>* values;

  explicit GatherScatter(const Op& op)
      : units_per_row(table_of(op).row_size() * size_of(table_of(op).dtype) / sizeof(Unit)),
        count(op.rows.size() * units_per_row),
        units(units_per_row),
        rows(op.rows.template ptr<std::uint32_t>()),
        table(static_cast<Unit*>(table_of(op).data)),
        values(static_cast<Unit*>(op.values.data)) {}
  unsigned blocks() const { return grid_for(count, kThreads); }

  __device__ void move() const {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t t = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count;
         t += step) {
      std::size_t unit;
      const std::uint32_t row = rows[units.divide(t, unit)];
      if (row == kNoRow) continue;
      Source<Unit>& there = table[row * units_per_row + unit];
      if constexpr (kGathers) {
        values[t] = there;
      } else {
        there = values[t];
      }
    }
  }
};

template <class Op, class Unit>
__global__ void gather_scatter_kernel(GatherScatter<Op, Unit> a) {
  a.move();
}
template <class Op, class Unit>
__global__ void gather_scatter_many_kernel(
    const __grid_constant__ Many<GatherScatter<Op, Unit>> many) {
  many.mine().move();
}

template <class Op>
std::size_t unit_of(const Op& op) {
  const TensorRef& table = table_of(op);
  return row_unit(table.row_size() * size_of(table.dtype), op.values.data, table.data);
}

template <class Op>
void gather_scatter(const OpContext& context, const Op& op) {
  with_row_unit(unit_of(op), [&]<class Unit>(Unit) {
    const GatherScatter<Op, Unit> args(op);
    launch(context, Op::kName, dim3(args.blocks()), dim3(kThreads), 0,
           &gather_scatter_kernel<Op, Unit>, args);
  });
}

template <class Op>
void gather_scatter_many(const OpContext& context, const Several<Op>& several) {
  std::map<std::size_t, std::vector<const Op*>> alike;
  for (const Op& op : several.ops) {
    if (op.rows.size() > 0) alike[unit_of(op)].push_back(&op);
  }
  for (const auto& [unit, ops] : alike) {
    with_row_unit(unit, [&]<class Unit>(Unit) {
      using Args = GatherScatter<Op, Unit>;
      std::vector<Args> all;
      for (const Op* op : ops) all.emplace_back(*op);
      launch_many<Args>(context, Op::kSeveralName, all, dim3(kThreads),
                        &gather_scatter_many_kernel<Op, Unit>,
                        [](const Args& args) { return args.blocks(); });
    });
  }
}

}  // namespace hugectr::cuda
