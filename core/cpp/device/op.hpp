// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"
#include "core/cpp/base/op_table.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// How an operation is written, checked, found and run.
///
/// An op is a plain struct in core/cpp/ops/<op>.hpp: its tensors, its attributes, and
///   static constexpr const char* kName = "relu_fwd";
///   void visit(OpVisitor& v);   // names every tensor and attribute, once
///   void check() const;         // shapes and dtypes, once for all devices
/// The .cpp registers the CPU kernel, the .cu of the same stem the CUDA kernel:
///   const OpRegistration<ReluFwd> relu_fwd_cpu{DeviceType::Cpu, &relu_fwd_kernel};
/// A caller writes run(context, ReluFwd{.x = ..., .y = ...}).
/// An op whose kernel itself submits to context.stream (the collectives) says so with
///   static constexpr bool kSubmits = true;
/// and is called in the caller's thread instead of as a task of the stream.
/// An op that works in 16 bits too names the fields that are then float16 or bfloat16 with
///   static constexpr std::string_view k16BitFields = "x w y";
/// All of them have one dtype; its other float fields stay float32. CUDA kernels compute in float32
/// and round once, at the store. CPU kernels see float32 only: the op reaches them through float32
/// copies (float32_copies.cpp). What is too large to be copied, as the rows of a table, the CPU
/// kernel of an op takes in bfloat16 as it is, and names those fields with
///   static constexpr std::string_view kBFloat16OnCpu = "weights";
namespace hugectr {

class Stream;
class ThreadPool;
class Communicator;

/// What a kernel may use besides its op.
struct OpContext {
  Stream* stream = nullptr;              ///< where the work goes
  ThreadPool* pool = nullptr;            ///< CPU loops go through parallel_for(*pool, ...)
  Communicator* communicator = nullptr;  ///< only ops of core/cpp/comm use it
  DeviceId device;
  bool tf32 = false;               ///< float32 products may round their factors to tf32
  bool search_algorithms = false;  ///< products may time several algorithms at their first call
  /// On the CPU the bits of a sample's results depend on that sample alone, not on its place in the
  /// batch: for what users see. Training does without, for speed.
  bool rows_alike = false;
};

enum class Access { In, Out, InOut };

/// Sees every tensor and attribute of an op. Attribute overloads cover bool, integers, enums,
/// floating point, vectors of int64 and float.
class HCTR_API OpVisitor {
 public:
  virtual ~OpVisitor();
  /// A tensor that must be there.
  virtual void tensor(const char* name, Access access, TensorRef& ref) = 0;
  /// A tensor that may be empty.
  virtual void optional(const char* name, Access access, TensorRef& ref) {
    if (!ref.empty()) tensor(name, access, ref);
  }
  /// A list of tensors.
  virtual void tensors(const char* name, Access access, std::vector<TensorRef>& refs) {
    for (auto& ref : refs) tensor(name, access, ref);
  }
  virtual void attribute(const char*, bool&) {}
  virtual void attribute(const char*, std::int64_t&) {}
  virtual void attribute(const char*, std::uint64_t&) {}
  virtual void attribute(const char*, double&) {}
  virtual void attribute(const char*, std::vector<std::int64_t>&) {}
  virtual void attribute(const char*, std::vector<double>&) {}
  /// Enums travel as int64.
  template <class E>
    requires std::is_enum_v<E>
  void attribute(const char* name, E& value) {
    auto number = static_cast<std::int64_t>(value);
    attribute(name, number);
    // Readers may visit one op from several threads: write only what changed.
    if (number != static_cast<std::int64_t>(value)) value = static_cast<E>(number);
  }
};

template <class Op>
concept Operation = requires(Op op, const Op const_op, OpVisitor& visitor) {
  { Op::kName } -> std::convertible_to<const char*>;
  op.visit(visitor);
  const_op.check();
};

namespace detail {

/// Replaces the 16-bit tensors of an op by float32 copies; write_back() rounds the results.
class HCTR_API Float32Copies final : public OpVisitor {
 public:
  /// `kept`: fields that stay as they are in bfloat16.
  explicit Float32Copies(std::string_view kept) : kept_(kept) {}
  void tensor(const char* name, Access access, TensorRef& ref) override;
  /// Stores the copies of Out and InOut tensors, in the order of the fields.
  void write_back() const;

 private:
  struct Copy {
    Access access;
    TensorRef original;
    std::vector<float> values;
  };
  std::string_view kept_;
  std::vector<std::unique_ptr<Copy>> copies_;
};

template <class Op>
constexpr std::string_view fields_of_16_bits() {
  if constexpr (requires { Op::k16BitFields; }) {
    return Op::k16BitFields;
  } else {
    return {};
  }
}

template <class Op>
constexpr std::string_view fields_kept_in_bfloat16() {
  if constexpr (requires { Op::kBFloat16OnCpu; }) {
    return Op::kBFloat16OnCpu;
  } else {
    return {};
  }
}

/// Whether a list of names, a space between two, has this one.
HCTR_API bool names_field(std::string_view names, std::string_view name);

template <class Op>
constexpr bool submits() {
  if constexpr (requires { Op::kSubmits; }) {
    return Op::kSubmits;
  } else {
    return false;
  }
}

}  // namespace detail

/// An op of any type, by value: what a StepSchedule stores and what Python runs by name.
class HCTR_API AnyOp {
 public:
  AnyOp() = default;
  template <Operation Op>
  AnyOp(Op op) : model_(held(new Model<Op>(std::move(op)))) {}  // NOLINT: by design

  /// An op with all fields at their defaults; throws InvalidArgument for an unknown name.
  static AnyOp make(std::string_view name);

  explicit operator bool() const { return model_ != nullptr; }
  const char* name() const { return model_->name; }
  /// Whether its kernel itself submits to the stream (kSubmits).
  bool submits() const { return model_->submits; }
  /// Copies the op first: tasks already submitted keep the old values.
  void visit(OpVisitor& visitor);
  /// Calls f(name, access, ref) for every non-empty tensor.
  void for_each_tensor(const std::function<void(const char*, Access, TensorRef&)>& f);
  void for_each_tensor(const std::function<void(const char*, Access, const TensorRef&)>& f) const;

  /// Whether the op takes 16-bit tensors in this field (k16BitFields).
  bool takes_16_bits(std::string_view field) const;

  /// The op as its own type, or nullptr.
  template <Operation Op>
  const Op* get_if() const {
    return model_ && std::string_view(model_->name) == Op::kName
               ? &static_cast<const Model<Op>*>(model_.get())->op
               : nullptr;
  }

  /// Checks arguments and devices, finds the kernel, submits it to context.stream.
  void run(const OpContext& context) const;
  /// The same with the checks and the table look-up already done by prepare().
  void run_prepared(const OpContext& context) const;
  /// Checks everything that does not change between steps; remembers the kernel.
  void prepare(const OpContext& context);

 private:
  // Every file that makes an op compiles all of its Model: what needs not know Op is not in it.
  struct HCTR_API Base {
    Base(const char* op_name, std::string_view fields, std::string_view kept, bool kernel_submits)
        : name(op_name),
          fields_of_16_bits(fields),
          kept_in_bfloat16(kept),
          submits(kernel_submits) {}
    Base(const Base&) = default;
    Base& operator=(const Base&) = delete;
    virtual ~Base();
    virtual void visit(OpVisitor& visitor) = 0;
    virtual void check() const = 0;
    virtual std::shared_ptr<Base> clone() const = 0;
    virtual void call(OpTable::AnyKernel kernel, const OpContext& context) const = 0;
    const char* const name;
    const std::string_view fields_of_16_bits, kept_in_bfloat16;
    const bool submits;
  };
  template <Operation Op>
  struct Model final : Base {
    explicit Model(Op o)
        : Base(Op::kName, detail::fields_of_16_bits<Op>(), detail::fields_kept_in_bfloat16<Op>(),
               detail::submits<Op>()),
          op(std::move(o)) {}
    void visit(OpVisitor& visitor) override { op.visit(visitor); }
    void check() const override { op.check(); }
    std::shared_ptr<Base> clone() const override { return held(new Model(*this)); }
    void call(OpTable::AnyKernel kernel, const OpContext& context) const override {
      reinterpret_cast<void (*)(const OpContext&, const Op&)>(kernel)(context, op);
    }
    Op op;
  };
  static std::shared_ptr<Base> held(
      Base* model);  ///< so that the pointer's own code is one for all
  static bool holds_16_bits(Base& model);
  static void call(Base& model, OpTable::AnyKernel kernel, const OpContext& context);
  void check_all(const OpContext& context) const;

  std::shared_ptr<Base> model_;
  OpTable::AnyKernel kernel_ = nullptr;
};

namespace detail {
HCTR_API void register_prototype(std::string_view name, AnyOp (*factory)());
}

/// A static object of this type registers the kernel of one op for one device.
template <Operation Op>
struct OpRegistration {
  OpRegistration(DeviceType device, void (*kernel)(const OpContext&, const Op&)) {
    OpTable::instance().add(Op::kName, device, reinterpret_cast<OpTable::AnyKernel>(kernel));
    detail::register_prototype(Op::kName, [] { return AnyOp(Op{}); });
  }
};

/// Checks, dispatches by context.device and submits to context.stream; returns before it has run.
template <Operation Op>
void run(const OpContext& context, Op op) {
  AnyOp(std::move(op)).run(context);
}

}  // namespace hugectr
