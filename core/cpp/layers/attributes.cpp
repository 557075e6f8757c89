// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/cpp/layers/layer.hpp"

namespace hugectr {
namespace {

constexpr std::array<const char*, 6> kKinds = {"a bool",   "an int",        "a float",
                                               "a string", "a list of int", "a list of float"};

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

const AttributeValue* Attributes::find(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

void Attributes::refuse(const std::string& name, const std::string& why) const {
  const std::string of = owner_.empty() ? "layer" : owner_ + ":";
  throw InvalidArgument(concat(of, " parameter ", name, " ", why));
}

void Attributes::wrong_kind(const std::string& name, const char* wanted,
                            const AttributeValue& value) const {
  refuse(name, concat("is ", kKinds[value.index()], ", must be ", wanted));
}

bool Attributes::get_bool(const std::string& name, bool fallback) const {
  const AttributeValue* value = find(name);
  if (value == nullptr) return fallback;
  if (const auto* b = std::get_if<bool>(value)) return *b;
  wrong_kind(name, "a bool", *value);
}

std::int64_t Attributes::get_int(const std::string& name, std::int64_t fallback) const {
  const AttributeValue* value = find(name);
  if (value == nullptr) return fallback;
  if (const auto* i = std::get_if<std::int64_t>(value)) return *i;
  wrong_kind(name, "an int", *value);
}

double Attributes::get_double(const std::string& name, double fallback) const {
  const AttributeValue* value = find(name);
  if (value == nullptr) return fallback;
  if (const auto* d = std::get_if<double>(value)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(value)) return static_cast<double>(*i);
  wrong_kind(name, "a float", *value);
}

std::string Attributes::get_string(const std::string& name, const std::string& fallback) const {
  const AttributeValue* value = find(name);
  if (value == nullptr) return fallback;
  if (const auto* s = std::get_if<std::string>(value)) return *s;
  wrong_kind(name, "a string", *value);
}

std::vector<std::int64_t> Attributes::get_ints(const std::string& name) const {
  const AttributeValue* value = find(name);
  if (value == nullptr) return {};
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) return *list;
  // An empty list has no element to tell its kind from.
  const auto* floats = std::get_if<std::vector<double>>(value);
  if (floats != nullptr && floats->empty()) return {};
  wrong_kind(name, "a list of int", *value);
}

std::vector<double> Attributes::get_doubles(const std::string& name) const {
  const AttributeValue* value = find(name);
  if (value == nullptr) return {};
  if (const auto* list = std::get_if<std::vector<double>>(value)) return *list;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) {
    return {list->begin(), list->end()};
  }
  wrong_kind(name, "a list of float", *value);
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
  if (it != names.end()) return it->second;
  refuse(name,
         concat("is \"", value, "\", must be Default, Uniform, XavierNorm, XavierUniform or Zero"));
}

}  // namespace hugectr
