// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "core/cpp/device/op.hpp"

/// Several ops of one kind at once, none of which touches what another writes: what many small
/// tables need, whose kernels are shorter than a launch. They mean what they mean one after the
/// other, in any order, to the bit. An op that may be run so names the whole,
///   static constexpr const char* kSeveralName = "embedding_lookups";
/// and registers a kernel for each device, of its own or the one that runs one after the other.
namespace hugectr {

namespace detail {

template <class Op>
struct Several16BitFields {};
template <class Op>
  requires requires { Op::k16BitFields; }
struct Several16BitFields<Op> {
  static constexpr std::string_view k16BitFields = Op::k16BitFields;
};
template <class Op>
struct SeveralBFloat16OnCpu {};
template <class Op>
  requires requires { Op::kBFloat16OnCpu; }
struct SeveralBFloat16OnCpu<Op> {
  static constexpr std::string_view kBFloat16OnCpu = Op::kBFloat16OnCpu;
};

}  // namespace detail

template <Operation Op>
struct Several : detail::Several16BitFields<Op>, detail::SeveralBFloat16OnCpu<Op> {
  static constexpr const char* kName = Op::kSeveralName;
  std::vector<Op> ops;

  void visit(OpVisitor& v) {
    for (Op& op : ops) op.visit(v);
  }
  void check() const {
    for (const Op& op : ops) op.check();
  }
};

/// The kernel that needs no kernel of its own.
template <Operation Op>
void run_one_after_the_other(const OpContext& context, const Several<Op>& several) {
  const auto kernel = reinterpret_cast<void (*)(const OpContext&, const Op&)>(
      OpTable::instance().find(Op::kName, context.device.type));
  for (const Op& op : several.ops) kernel(context, op);
}

/// A static object of this type registers the kernel of several ops for one device. They have no
/// prototype: they are run from C++ only.
template <Operation Op>
struct SeveralRegistration {
  explicit SeveralRegistration(DeviceType device,
                               void (*kernel)(const OpContext&,
                                              const Several<Op>&) = &run_one_after_the_other<Op>) {
    OpTable::instance().add(Several<Op>::kName, device,
                            reinterpret_cast<OpTable::AnyKernel>(kernel));
  }
};

/// As run(), for ops that do not touch what the others write. A single one is just run.
template <Operation Op>
void run_several(const OpContext& context, std::vector<Op> ops) {
  if (ops.empty()) return;
  if (ops.size() == 1) return run(context, std::move(ops.front()));
  Several<Op> several;
  several.ops = std::move(ops);
  run(context, std::move(several));
}

}  // namespace hugectr
