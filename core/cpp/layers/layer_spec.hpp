// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/cpp/base/export.hpp"

/// Dense layers as users write them.
namespace hugectr {

enum class Initializer { Default, Uniform, XavierNorm, XavierUniform, Zero };

/// A parameter value of a layer as users write it.
using AttributeValue = std::variant<bool, std::int64_t, double, std::string,
                                    std::vector<std::int64_t>, std::vector<double>>;

/// Named parameters of one layer. Those that a layer does not read are ignored, where others do:
/// the Python DenseLayer and JSON give every layer type the same set. A name that no layer has is
/// an error of make_layer().
class HCTR_API Attributes {
 public:
  // Not inline: every source that passes a layer on would compile what its values are made of.
  Attributes();
  Attributes(std::map<std::string, AttributeValue> values);  // NOLINT
  Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> values);
  Attributes(const Attributes& other);
  Attributes(Attributes&& other) noexcept;
  Attributes& operator=(const Attributes& other);
  Attributes& operator=(Attributes&& other) noexcept;
  ~Attributes();

  bool has(const std::string& name) const;
  void set(const std::string& name, AttributeValue value);
  void erase(const std::string& name);
  const std::map<std::string, AttributeValue>& values() const { return values_; }

  /// Whose they are, which errors then say: 'InnerProduct layer "fc1"'.
  void belong_to(std::string owner) { owner_ = std::move(owner); }

  /// The value or the default; a value of the wrong kind throws InvalidArgument naming it.
  bool get_bool(const std::string& name, bool fallback) const;
  std::int64_t get_int(const std::string& name, std::int64_t fallback) const;
  double get_double(const std::string& name, double fallback) const;
  std::string get_string(const std::string& name, const std::string& fallback) const;
  std::vector<std::int64_t> get_ints(const std::string& name) const;
  std::vector<double> get_doubles(const std::string& name) const;
  /// "Default", "Uniform", "XavierNorm", "XavierUniform", "Zero".
  Initializer get_initializer(const std::string& name) const;

 private:
  const AttributeValue* find(const std::string& name) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;
  [[noreturn]] void wrong_kind(const std::string& name, const char* wanted,
                               const AttributeValue& value) const;

  std::map<std::string, AttributeValue> values_;
  std::string owner_;
};

/// One node of the dense network as users write it.
struct DenseLayerSpec {
  std::string type;  ///< "InnerProduct", "ReLU", ... (Layer_t names)
  std::vector<std::string> bottoms;
  std::vector<std::string> tops;
  Attributes attributes;
};

}  // namespace hugectr
