// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

constexpr int kDeepest = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& to, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { to += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

/// Recursive descent; the depth is bounded, so the stack is.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json whole() {
    Json value = any(0);
    spaces();
    if (at_ != text_.size()) refuse("the end");
    return value;
  }

 private:
  [[noreturn]] void refuse(const char* wanted) const {
    throw DataError(concat("byte ", at_, " of the JSON text: ", wanted, " is expected"));
  }

  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void spaces() {
    while (next() == ' ' || next() == '\t' || next() == '\n' || next() == '\r') ++at_;
  }

  bool takes(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }

  bool takes(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json any(int depth) {
    if (depth > kDeepest) refuse("an end of arrays and objects in one another (64 deep)");
    spaces();
    if (takes('{')) return object(depth);
    if (takes('[')) return array(depth);
    if (next() == '"') return Json(Json::Value(text()));
    if (takes("true")) return Json(Json::Value(true));
    if (takes("false")) return Json(Json::Value(false));
    if (takes("null")) return Json();
    return number();
  }

  Json object(int depth) {
    std::vector<Json::Member> members;
    std::unordered_set<std::string> names;
    spaces();
    if (takes('}')) return Json(Json::Value(std::move(members)));
    do {
      spaces();
      std::string name = text();
      if (!names.insert(name).second) refuse("a name that the object does not have yet");
      spaces();
      if (!takes(':')) refuse("':'");
      members.emplace_back(std::move(name), any(depth + 1));
      spaces();
    } while (takes(','));
    if (!takes('}')) refuse("',' or '}'");
    return Json(Json::Value(std::move(members)));
  }

  Json array(int depth) {
    std::vector<Json> items;
    spaces();
    if (takes(']')) return Json(Json::Value(std::move(items)));
    do {
      items.push_back(any(depth + 1));
      spaces();
    } while (takes(','));
    if (!takes(']')) refuse("',' or ']'");
    return Json(Json::Value(std::move(items)));
  }

  Json number() {
    const std::size_t begin = at_;
    takes('-');
    if (!takes('0')) digits();
    if (takes('.')) digits();
    if (takes('e') || takes('E')) {
      if (!takes('+')) takes('-');
      digits();
    }
    return Json(Json::Value(Json::Number{text_.substr(begin, at_ - begin)}));
  }

  void digits() {
    if (!is_digit(next())) refuse("a value, or a digit of a number");
    while (is_digit(next())) ++at_;
  }

  std::string text() {
    if (!takes('"')) refuse("'\"'");
    std::string found;
    for (;; ++at_) {
      const char c = next();
      if (c < ' ' || c > '~') refuse("a printable character of ASCII, or an escape");
      if (c == '"') break;
      if (c == '\\') {
        ++at_;
        escape(found);
      } else {
        found += c;
      }
    }
    ++at_;
    return found;
  }

  /// at_ is behind the backslash; afterwards on the last character of the escape.
  void escape(std::string& to) {
    static constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    if (next() != 'u') {
      const std::size_t which = next() == '\0' ? kNames.npos : kNames.find(next());
      if (which == kNames.npos) refuse("an escape");
      to += kValues[which];
      return;
    }
    std::uint32_t code = four_digits();
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_ + 1, 2) == "\\u") {
      at_ += 2;
      const std::uint32_t low = four_digits();
      if (low < 0xDC00 || low > 0xDFFF) refuse("the second half of a character");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xD800 && code < 0xE000) {
      refuse("a whole character");
    }
    append_utf8(to, code);
  }

  /// at_ is on the u; afterwards on the last digit.
  std::uint32_t four_digits() {
    std::uint32_t code = 0;
    const char* const begin = text_.data() + at_ + 1;
    if (text_.size() - at_ < 5) refuse("four hexadecimal digits");
    const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
    if (error != std::errc() || end != begin + 4) refuse("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

[[noreturn]] void refuse(const std::string& where, const char* allowed) {
  throw DataError(concat(where, " must be ", allowed));
}

template <class T>
const T& as(const Json::Value& value, const std::string& where, const char* allowed) {
  const T* const found = std::get_if<T>(&value);
  if (found == nullptr) refuse(where, allowed);
  return *found;
}

// --- as Python writes it ---

void write_text(std::string& to, std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto unit = [&](std::uint32_t code) {
    to += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) to += kDigits[code >> shift & 15];
  };
  to += '"';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    static constexpr std::string_view kNames = "\"\\bfnrt", kValues = "\"\\\b\f\n\r\t";
    if (const auto which = kValues.find(text[i]); which != kValues.npos) {
      to += '\\';
      to += kNames[which];
    } else if (byte >= ' ' && byte <= '~') {
      to += text[i];
    } else if (byte < 0x80) {
      unit(byte);
    } else {  // append_utf8() made it, so it is whole
      const int more = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
      std::uint32_t code = byte & (0x3F >> more);
      for (int k = 0; k < more; ++k) code = code << 6 | (text[++i] & 0x3F);
      if (code >= 0x10000) {
        unit(0xD800 + ((code - 0x10000) >> 10));
        code = 0xDC00 + ((code - 0x10000) & 0x3FF);
      }
      unit(code);
    }
  }
  to += '"';
}

void write(std::string& to, const Json& json, std::string_view but);

void write_object(std::string& to, const std::vector<Json::Member>& members, std::string_view but) {
  std::vector<const Json::Member*> sorted;
  for (const Json::Member& member : members) {
    if (but.empty() || member.first != but) sorted.push_back(&member);
  }
  // Python sorts by code points, which is the order of the bytes of UTF-8.
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::string_view(a->first) < std::string_view(b->first);
  });
  to += '{';
  for (const Json::Member* member : sorted) {
    if (member != sorted.front()) to += ", ";
    write_text(to, member->first);
    to += ": ";
    write(to, member->second, {});
  }
  to += '}';
}

void write(std::string& to, const Json& json, std::string_view but) {
  const Json::Value& value = json.value();
  if (const auto* flag = std::get_if<bool>(&value)) {
    to += *flag ? "true" : "false";
  } else if (const auto* number = std::get_if<Json::Number>(&value)) {
    to += number->text;
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    write_text(to, *text);
  } else if (const auto* items = std::get_if<std::vector<Json>>(&value)) {
    to += '[';
    for (const Json& item : *items) {
      if (&item != items->data()) to += ", ";
      write(to, item, {});
    }
    to += ']';
  } else if (const auto* members = std::get_if<std::vector<Json::Member>>(&value)) {
    write_object(to, *members, but);
  } else {
    to += "null";
  }
}

}  // namespace

Json::Json() = default;
Json::Json(Value value) : value_(std::move(value)) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

bool Json::boolean(const std::string& where) const {
  return as<bool>(value_, where, "true or false");
}

const std::string& Json::text(const std::string& where) const {
  return as<std::string>(value_, where, "a text");
}

std::int64_t Json::integer(const std::string& where, std::int64_t low, std::int64_t high) const {
  const std::string_view text = as<Number>(value_, where, "an integer").text;
  std::int64_t found = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found);
  if (error != std::errc() || end != text.data() + text.size() || found < low || found > high) {
    throw DataError(concat(where, " is ", text.substr(0, 40), ", allowed: an integer from ", low,
                           " to ", high));
  }
  return found;
}

double Json::number(const std::string& where) const {
  const std::string_view text = as<Number>(value_, where, "a number").text;
  double found = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(found)) {
    throw DataError(concat(where, " is ", text.substr(0, 40), ", allowed: a finite number"));
  }
  return found;
}

const std::vector<Json>& Json::list(const std::string& where) const {
  return as<std::vector<Json>>(value_, where, "a list");
}

std::vector<std::string> Json::texts(const std::string& where) const {
  std::vector<std::string> found;
  for (const Json& item : list(where)) found.push_back(item.text(where));
  return found;
}

const std::vector<Json::Member>& Json::members(const std::string& where) const {
  return as<std::vector<Member>>(value_, where, "an object");
}

const Json* Json::find(const std::string& name, const std::string& where) const {
  for (const Member& member : members(where)) {
    if (member.first == name) return &member.second;
  }
  return nullptr;
}

const Json& Json::at(const std::string& name, const std::string& where) const {
  const Json* const found = find(name, where);
  if (found == nullptr) throw DataError(concat(where, " has no '", name, "'"));
  return *found;
}

Json parse_json(std::string_view text) { return Parser(text).whole(); }

std::string sorted_json_text(const Json& value, std::string_view but) {
  std::string text;
  write(text, value, but);
  return text;
}

}  // namespace hugectr
