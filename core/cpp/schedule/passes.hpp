// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/schedule/step_schedule.hpp"

/// Rewrites of a step schedule. Each keeps its meaning: with HUGECTR_FUSE=0 only plan_memory runs
/// and results agree within the tolerances of the op tests.
namespace hugectr {

/// Rows of 16-bit elements begin at multiples of this many where that can be had: 16 bytes.
inline constexpr std::size_t kRowAlign = 8;

/// Mixed precision: lets ops work in `dtype` (float16 or bfloat16) where they can.
///
/// A tensor that may be 16 bits becomes `dtype` when a record has it in a field that its op takes
/// in 16 bits; 2-D ones of odd width get rows of a multiple of 8 elements, so that every row begins
/// at 16 bytes. A parameter (External) that may be 16 bits stays float32; ops that take the field
/// in 16 bits read "<name>@16" instead, an External tensor of `dtype`. Everything else a record
/// asks for in another type than the tensor has goes through a twin and a Cast record. Runs on
/// records in their final order.
HCTR_API void cast_to_16_bits(StepSchedule& schedule, TensorScalarType dtype);
/// Name of a parameter's 16-bit copy.
HCTR_API std::string name_in_16_bits(const std::string& parameter);

/// linear_fwd + relu_fwd -> linear_fwd with Activation::Relu, and the backward pair likewise.
HCTR_API void fuse_linear_activation(StepSchedule& schedule);

/// A linear that alone reads a concat's result needs no concat:
///
///   y = act([x1 x2] w + b)  ->  s = x1 w[0:n1],  y = act(x2 w[n1:] + s + b)
///   [dx1 dx2] = dz w^T      ->  dx1 = dz w[0:n1]^T,  dx2 = dz w[n1:]^T
///   dw += [x1 x2]^T dz      ->  dw[0:n1] += x1^T dz,  dw[n1:] += x2^T dz
///
/// The first linear_bwd masks dy and sums db for all. Rows of w and dw are View tensors of the
/// parameter, or of its 16-bit copy, and of its gradient; y's partial sums are rounded to its type.
/// The result of the concat and its gradient go, so both must be seen by these records only.
///
/// Done where a part that a linear wrote would begin off 16 bytes: as columns of the concat each of
/// its products, forwards and backwards, would go through an aligned copy. The price is that s is
/// written and read once for every part but the first; together those have no more columns than the
/// parts off 16 bytes. What other ops write needs no alignment and is no reason to split.
/// After cast_to_16_bits, which knows what 16 bytes are, and fuse_linear_activation; before
/// fuse_linear_backward, which then joins the linear of a part with the one that made the part.
HCTR_API void split_linear_over_concat(StepSchedule& schedule);

/// linear_bwd whose dx is taken by one linear_bwd with Activation::Relu: the first masks its dx and
/// sums the bias gradient of the second, which loses its own pass. After fuse_linear_activation,
/// before make_views.
HCTR_API void fuse_linear_backward(StepSchedule& schedule);

/// linear_bwd stores a parameter's gradient, or rows of it, when it is the first to write there,
/// instead of adding to what was there. With a regulariser, which writes all gradients first,
/// nothing changes. May run again where records have been added.
HCTR_API void overwrite_gradients(StepSchedule& schedule);

/// Tells linear_fwd and linear_bwd which of their rows are padded. After make_views.
HCTR_API void mark_padded_rows(StepSchedule& schedule);

/// linear_fwd and linear_bwd multiply in fp8 where the 16-bit w they take is (n, m) with n >= 16
/// and m a multiple of 16, which is what fp8 products of GPUs have; others stay in 16 bits. Changes
/// numbers, so it is for who asks for it; of a schedule that trains. After all that makes or splits
/// these records.
HCTR_API void products_in_fp8(StepSchedule& schedule);

/// Concat, Slice and Reshape records whose sources may lie in (or whose results may be columns of)
/// one wider tensor become View tensors, and the record goes. An embedding output consumed only by
/// a Concat is thereby written straight into its consumer.
HCTR_API void make_views(StepSchedule& schedule);

/// Where each arena tensor lies: byte offsets such that tensors alive at the same record never
/// overlap. Activations keep their own memory (they can be asked for by name); gradients share.
struct MemoryPlan {
  std::map<int, std::size_t> offsets;  ///< id of a tensor that owns memory -> byte offset
  std::size_t bytes = 0;               ///< arena size
  std::size_t bytes_unshared = 0;      ///< what it would be without sharing
};
HCTR_API MemoryPlan plan_memory(const StepSchedule& schedule, bool share);

/// True unless the environment says HUGECTR_FUSE=0.
HCTR_API bool fusion_enabled();
/// All of the above in the order that they need, then refresh_refs; nothing but refresh_refs when
/// fusion is off.
HCTR_API void optimize(StepSchedule& schedule);

}  // namespace hugectr
