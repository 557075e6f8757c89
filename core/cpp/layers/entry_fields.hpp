// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cpp/base/catalogue.hpp"
#include "core/cpp/layers/layer.hpp"

namespace hugectr {

/// Sets the fields of a catalogue's entry to the layer's parameters: those are called like the
/// entry's op and the field, `elu_alpha`. Throws InvalidArgument naming layer and parameter.
template <class Entry>
void read_fields(const Layer& layer, Entry& entry) {
  Entry::visit(entry, [&](const Field& field, float& value) {
    const std::string parameter = std::string(Entry::kOp) + "_" + field.name;
    value = checked_field(concat(layer.spec().type, " layer \"", layer.name(), "\": ", parameter),
                          field, layer.spec().attributes.get_double(parameter, value));
  });
}

}  // namespace hugectr
