// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/cpp/layers/layer.hpp"

namespace hugectr {
namespace {

constexpr std::array<const char*, 6> kKinds = {"bool",   "int",         "float",
                                               "string", "list of int", "list of float"};

[[noreturn]] void wrong_kind(const std::string& name, const char* wanted,
                             const AttributeValue& value) {
  throw InvalidArgument(
      concat("layer parameter ", name, " is a ", kKinds[value.index()], ", must be a ", wanted));
}

const AttributeValue* find(const std::map<std::string, AttributeValue>& values,
                           const std::string& name) {
  const auto it = values.find(name);
  return it == values.end() ? nullptr : &it->second;
}

}  // namespace

Attributes::Attributes() = default;
Attributes::Attributes(std::map<std::string, AttributeValue> values) : values_(std::move(values)) {}
Attributes::Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> values)
    : values_(values) {}
Attributes::Attributes(const Attributes& other) = default;
Attributes::Attributes(Attributes&& other) noexcept = default;
Attributes& Attributes::operator=(const Attributes& other) = default;
Attributes& Attributes::operator=(Attributes&& other) noexcept = default;
Attributes::~Attributes() = default;

bool Attributes::has(const std::string& name) const { return values_.count(name) != 0; }
void Attributes::set(const std::string& name, AttributeValue value) {
  values_[name] = std::move(value);
}
void Attributes::erase(const std::string& name) { values_.erase(name); }

bool Attributes::get_bool(const std::string& name, bool fallback) const {
  const AttributeValue* value = find(values_, name);
  if (value == nullptr) return fallback;
  if (const auto* b = std::get_if<bool>(value)) return *b;
  wrong_kind(name, "bool", *value);
}

std::int64_t Attributes::get_int(const std::string& name, std::int64_t fallback) const {
  const AttributeValue* value = find(values_, name);
  if (value == nullptr) return fallback;
  if (const auto* i = std::get_if<std::int64_t>(value)) return *i;
  wrong_kind(name, "int", *value);
}

double Attributes::get_double(const std::string& name, double fallback) const {
  const AttributeValue* value = find(values_, name);
  if (value == nullptr) return fallback;
  if (const auto* d = std::get_if<double>(value)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(value)) return static_cast<double>(*i);
  wrong_kind(name, "float", *value);
}

std::string Attributes::get_string(const std::string& name, const std::string& fallback) const {
  const AttributeValue* value = find(values_, name);
  if (value == nullptr) return fallback;
  if (const auto* s = std::get_if<std::string>(value)) return *s;
  wrong_kind(name, "string", *value);
}

std::vector<std::int64_t> Attributes::get_ints(const std::string& name) const {
  const AttributeValue* value = find(values_, name);
  if (value == nullptr) return {};
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) return *list;
  // An empty list has no element to tell its kind from.
  const auto* floats = std::get_if<std::vector<double>>(value);
  if (floats != nullptr && floats->empty()) return {};
  wrong_kind(name, "list of int", *value);
}

std::vector<double> Attributes::get_doubles(const std::string& name) const {
  const AttributeValue* value = find(values_, name);
  if (value == nullptr) return {};
  if (const auto* list = std::get_if<std::vector<double>>(value)) return *list;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) {
    return {list->begin(), list->end()};
  }
  wrong_kind(name, "list of float", *value);
}

Initializer Attributes::get_initializer(const std::string& name) const {
  static const std::map<std::string, Initializer> names = {
      {"Default", Initializer::Default},
      {"Uniform", Initializer::Uniform},
      {"XavierNorm", Initializer::XavierNorm},
      {"XavierUniform", Initializer::XavierUniform},
      {"Zero", Initializer::Zero}};
  const std::string value = get_string(name, "Default");
  const auto it = names.find(value);
  HCTR_CHECK(it != names.end(), "layer parameter ", name, " is \"", value,
             "\", must be Default, Uniform, XavierNorm, XavierUniform or Zero");
  return it->second;
}

}  // namespace hugectr
