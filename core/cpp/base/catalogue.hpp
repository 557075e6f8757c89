// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tuple>
#include <vector>

#include "core/cpp/base/fields.hpp"

/// A catalogue is a std::tuple of entries: structs that derive from Fields<...> and have
///   static constexpr const char* kName;  // what users know it by
///   static constexpr const char* kDoc;   // one line, a formula where there is one
/// Its order is that of what is made from it. Entries enter by name in one list, never by
/// themselves.
namespace hugectr {

/// f(entry) for every entry, with its defaults.
template <class Catalogue, class F>
void for_each_entry(const F& f) {
  std::apply([&](const auto&... entry) { (f(entry), ...); }, Catalogue{});
}

/// A Made<Entry> for every entry: const OfEach<Made, Catalogue> all;
template <class Catalogue>
struct EntriesOf;
template <class... Entries>
struct EntriesOf<std::tuple<Entries...>> {
  template <template <class> class Made>
  using Each = std::tuple<Made<Entries>...>;
};
template <template <class> class Made, class Catalogue>
using OfEach = typename EntriesOf<Catalogue>::template Each<Made>;

/// An entry as bindings and documentation see it.
struct EntryDescription {
  std::string name, doc;
  std::vector<FieldDescription> fields;
};

template <class Catalogue>
std::vector<EntryDescription> describe_entries() {
  std::vector<EntryDescription> all;
  for_each_entry<Catalogue>([&]<class Entry>(const Entry& entry) {
    all.push_back({Entry::kName, Entry::kDoc, describe_fields(entry)});
  });
  return all;
}

}  // namespace hugectr
