// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/op_by_name.hpp"

#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

const char* to_string(Access access) {
  switch (access) {
    case Access::In:
      return "in";
    case Access::Out:
      return "out";
    case Access::InOut:
      return "inout";
  }
  return "";
}

/// Sees every field under one function each; what a visitor does not override it passes over.
class FieldVisitor : public OpVisitor {
 public:
  void tensor(const char*, Access, TensorRef&) override {}
  void optional(const char*, Access, TensorRef&) override {}
  void tensors(const char*, Access, std::vector<TensorRef>&) override {}
};

class FieldLister final : public FieldVisitor {
 public:
  void tensor(const char* name, Access access, TensorRef&) override {
    fields[name] = to_string(access);
  }
  void optional(const char* name, Access access, TensorRef&) override {
    fields[name] = to_string(access);
  }
  void tensors(const char* name, Access access, std::vector<TensorRef>&) override {
    fields[name] = to_string(access);
  }
  void attribute(const char* name, bool&) override { add(name); }
  void attribute(const char* name, std::int64_t&) override { add(name); }
  void attribute(const char* name, std::uint64_t&) override { add(name); }
  void attribute(const char* name, double&) override { add(name); }
  void attribute(const char* name, std::vector<std::int64_t>&) override { add(name); }
  void attribute(const char* name, std::vector<double>&) override { add(name); }

  std::map<std::string, std::string> fields;

 private:
  void add(const char* name) { fields[name] = "attribute"; }
};

class TensorSetter final : public FieldVisitor {
 public:
  TensorSetter(const std::string& field, TensorRef ref) : field_(field), ref_(std::move(ref)) {}
  void tensor(const char* name, Access, TensorRef& ref) override { set(name, ref); }
  void optional(const char* name, Access, TensorRef& ref) override { set(name, ref); }
  bool found = false;

 private:
  void set(const char* name, TensorRef& ref) {
    if (field_ != name) return;
    ref = ref_;
    found = true;
  }
  const std::string& field_;
  TensorRef ref_;
};

class TensorListSetter final : public FieldVisitor {
 public:
  TensorListSetter(const std::string& field, std::vector<TensorRef> refs)
      : field_(field), refs_(std::move(refs)) {}
  void tensors(const char* name, Access, std::vector<TensorRef>& refs) override {
    if (field_ != name) return;
    refs = refs_;
    found = true;
  }
  bool found = false;

 private:
  const std::string& field_;
  std::vector<TensorRef> refs_;
};

std::optional<std::int64_t> whole(double value) {
  if (std::trunc(value) != value || std::fabs(value) > 0x1p53) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

class AttributeSetter final : public FieldVisitor {
 public:
  AttributeSetter(const char* op, const std::string& field, const OpAttribute& value)
      : op_(op), field_(field), value_(value) {}

  void attribute(const char* name, bool& target) override {
    if (!here(name)) return;
    const std::optional<std::int64_t> number = integer();
    expect(number == 0 || number == 1, "a bool");
    target = *number == 1;
  }
  void attribute(const char* name, std::int64_t& target) override {
    if (!here(name)) return;
    const std::optional<std::int64_t> number = integer();
    expect(number.has_value(), "an int");
    target = *number;
  }
  void attribute(const char* name, std::uint64_t& target) override {
    if (!here(name)) return;
    const std::optional<std::int64_t> number = integer();
    expect(number.has_value() && *number >= 0, "an int that is not negative");
    target = static_cast<std::uint64_t>(*number);
  }
  void attribute(const char* name, double& target) override {
    if (!here(name)) return;
    if (const auto* number = std::get_if<double>(&value_)) {
      target = *number;
      return;
    }
    const std::optional<std::int64_t> number = integer();
    expect(number.has_value(), "a float");
    target = static_cast<double>(*number);
  }
  void attribute(const char* name, std::vector<std::int64_t>& target) override {
    if (!here(name)) return;
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value_)) {
      target = *list;
      return;
    }
    const auto* list = std::get_if<std::vector<double>>(&value_);
    expect(list != nullptr, "a list of ints");
    std::vector<std::int64_t> numbers;
    for (const double value : *list) {
      const auto number = whole(value);
      expect(number.has_value(), "a list of ints");
      numbers.push_back(*number);
    }
    target = std::move(numbers);
  }
  void attribute(const char* name, std::vector<double>& target) override {
    if (!here(name)) return;
    if (const auto* list = std::get_if<std::vector<double>>(&value_)) {
      target = *list;
      return;
    }
    const auto* list = std::get_if<std::vector<std::int64_t>>(&value_);
    expect(list != nullptr, "a list of floats");
    target.assign(list->begin(), list->end());
  }
  bool found = false;

 private:
  bool here(const char* name) {
    if (field_ != name) return false;
    found = true;
    return true;
  }
  void expect(bool ok, const char* kind) const {
    HCTR_CHECK(ok, "op '", op_, "': attribute '", field_, "' takes ", kind);
  }
  std::optional<std::int64_t> integer() const {
    if (const auto* flag = std::get_if<bool>(&value_)) return *flag ? 1 : 0;
    if (const auto* number = std::get_if<std::int64_t>(&value_)) return *number;
    if (const auto* number = std::get_if<double>(&value_)) return whole(*number);
    return std::nullopt;
  }
  const char* op_;
  const std::string& field_;
  const OpAttribute& value_;
};

/// Finds a tensor that must be there and is not.
class MissingTensor final : public FieldVisitor {
 public:
  void tensor(const char* name, Access, TensorRef& ref) override {
    if (ref.empty() && this->name.empty()) this->name = name;
  }
  std::string name;
};

}  // namespace

OpByName::OpByName(std::string_view name) : op_(AnyOp::make(name)) {}

void OpByName::throw_unknown(const std::string& field, const char* kind) {
  std::string list;
  for (const auto& [name, access] : fields()) {
    list += concat(list.empty() ? "" : ", ", name, " (", access, ")");
  }
  throw InvalidArgument(
      concat("op '", op_.name(), "' has no ", kind, " '", field, "'; its fields are: ", list));
}

void OpByName::set_tensor(const std::string& field, TensorRef ref) {
  TensorSetter setter(field, std::move(ref));
  op_.visit(setter);
  if (!setter.found) throw_unknown(field, "tensor");
}

void OpByName::set_tensors(const std::string& field, std::vector<TensorRef> refs) {
  TensorListSetter setter(field, std::move(refs));
  op_.visit(setter);
  if (!setter.found) throw_unknown(field, "list of tensors");
}

void OpByName::set_attribute(const std::string& field, const OpAttribute& value) {
  AttributeSetter setter(op_.name(), field, value);
  op_.visit(setter);
  if (!setter.found) throw_unknown(field, "attribute");
}

std::map<std::string, std::string> OpByName::fields() {
  FieldLister lister;
  op_.visit(lister);
  return std::move(lister.fields);
}

AnyOp OpByName::take() {
  MissingTensor missing;
  op_.visit(missing);
  HCTR_CHECK(missing.name.empty(), "op '", op_.name(), "' needs the tensor '", missing.name,
             "', which was not given");
  return op_;
}

}  // namespace hugectr
