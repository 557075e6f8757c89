// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/op.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/op_timeline.hpp"
#include "core/cpp/device/work_counts.hpp"

namespace hugectr {
namespace {

struct Prototypes {
  std::shared_mutex mutex;
  std::map<std::string, AnyOp (*)(), std::less<>> factories;
};

Prototypes& prototypes() {
  static auto* const object = new Prototypes;  // outlives the statics of a plug-in
  return *object;
}

/// Calls f for every tensor that is there.
template <class F>
class TensorVisitor final : public OpVisitor {
 public:
  explicit TensorVisitor(F& f) : f_(f) {}
  void tensor(const char* name, Access access, TensorRef& ref) override {
    if (!ref.empty()) f_(name, access, ref);
  }

 private:
  F& f_;
};

void check_tensor(const char* op, const char* field, const TensorRef& ref, DeviceId device) {
  if (ref.data == nullptr && ref.size() > 0) {
    throw InvalidArgument(
        concat("op '", op, "': tensor '", field, "' of shape ", to_string(ref.shape),
               " has no memory: allocate its arena (or bind the schedule) first"));
  }
  const bool reachable =
      ref.device == device || (ref.device.is_host() && device.type == DeviceType::Cpu);
  if (!reachable) {
    throw InvalidArgument(concat("op '", op, "' runs on ", to_string(device), " but its tensor '",
                                 field, "' belongs to ", to_string(ref.device),
                                 ": copy it there, or run the op on the tensor's own device"));
  }
}

}  // namespace

OpVisitor::~OpVisitor() = default;
AnyOp::Base::~Base() = default;

std::shared_ptr<AnyOp::Base> AnyOp::held(Base* model) { return std::shared_ptr<Base>(model); }

void detail::register_prototype(std::string_view name, AnyOp (*factory)()) {
  Prototypes& p = prototypes();
  const std::unique_lock lock(p.mutex);
  p.factories.try_emplace(std::string(name), factory);  // each device's kernel registers it
}

AnyOp AnyOp::make(std::string_view name) {
  Prototypes& p = prototypes();
  const std::shared_lock lock(p.mutex);
  const auto it = p.factories.find(name);
  HCTR_CHECK(it != p.factories.end(), "there is no op '", name,
             "' in this build: op_names lists those there are");
  return it->second();
}

void AnyOp::visit(OpVisitor& visitor) {
  HCTR_CHECK(model_ != nullptr, "an empty op has no fields");
  // Always a fresh copy: use_count() is no synchronisation with a stream that still runs the op.
  model_ = model_->clone();
  model_->visit(visitor);
}

void AnyOp::for_each_tensor(const std::function<void(const char*, Access, TensorRef&)>& f) {
  TensorVisitor visitor(f);
  visit(visitor);
}

void AnyOp::for_each_tensor(
    const std::function<void(const char*, Access, const TensorRef&)>& f) const {
  HCTR_CHECK(model_ != nullptr, "an empty op has no fields");
  TensorVisitor visitor(f);
  model_->visit(visitor);  // reads only
}

bool detail::names_field(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

bool AnyOp::takes_16_bits(std::string_view field) const {
  return model_ && detail::names_field(model_->fields_of_16_bits, field);
}

void AnyOp::check_all(const OpContext& context) const {
  HCTR_CHECK(model_ != nullptr, "an empty op can not run");
  model_->check();
  const auto check = [&](const char* field, Access, const TensorRef& ref) {
    check_tensor(name(), field, ref, context.device);
  };
  TensorVisitor visitor(check);
  model_->visit(visitor);  // reads only
}

void AnyOp::run(const OpContext& context) const {
  AnyOp prepared = *this;
  prepared.prepare(context);
  prepared.run_prepared(context);
}

void AnyOp::prepare(const OpContext& context) {
  check_all(context);
  kernel_ = OpTable::instance().find(name(), context.device.type);
}

bool AnyOp::holds_16_bits(Base& model) {
  bool found = false;
  const auto look = [&](const char* field, Access, const TensorRef& ref) {
    found |= ref.dtype == TensorScalarType::Float16 ||
             (ref.dtype == TensorScalarType::BFloat16 &&
              !detail::names_field(model.kept_in_bfloat16, field));
  };
  TensorVisitor visitor(look);
  model.visit(visitor);  // reads only
  return found;
}

void AnyOp::call(Base& model, OpTable::AnyKernel kernel, const OpContext& context) {
  const bool in_float32 = context.device.type == DeviceType::Cpu &&
                          !model.fields_of_16_bits.empty() && holds_16_bits(model);
  if (!in_float32) return model.call(kernel, context);
  const std::shared_ptr<Base> widened = model.clone();
  detail::Float32Copies copies(widened->kept_in_bfloat16);
  widened->visit(copies);
  widened->call(kernel, context);
  copies.write_back();
}

void AnyOp::run_prepared(const OpContext& context) const {
  HCTR_CHECK(model_ != nullptr && kernel_ != nullptr, "op '", model_ ? name() : "",
             "' must be prepared before run_prepared()");
  OpTimeline* const timeline = context.stream ? context.stream->timeline() : nullptr;
  if (timeline) timeline->begin(*context.stream, model_->name);
  count_op();
  if (context.stream == nullptr || model_->submits) {
    call(*model_, kernel_, context);
  } else {
    context.stream->submit(
        [model = model_, kernel = kernel_, context] { call(*model, kernel, context); });
  }
  if (timeline) timeline->end(*context.stream);
}

}  // namespace hugectr
