// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/layers/layer.hpp"

/// A tensor may be the bottom of several layers: each then writes its own gradient, and somebody
/// must add them up. That somebody is a Slice layer put in here.
namespace hugectr {

/// Gives every use of a tensor that is a bottom k > 1 times a copy of its own: a Slice layer with
/// bottom `t` and tops `<t>_slice0` .. `<t>_slice<k-1>`, in order of use, right behind the layer
/// that makes `t` (before all layers when none does: inputs and embeddings). There is no limit on
/// k; names that are taken already are passed over. Tensors in `shared` (labels) stay as they are.
///
/// The widths are not known before shapes are: the new Slice carries the attribute `copies` = k,
/// and its forward() replaces it by k full `ranges` (0, dim1). So ask the *layers* for their specs
/// after forward(), as graph_to_json does; a list that went through here once comes back unchanged.
HCTR_API std::vector<DenseLayerSpec> insert_slices(const std::vector<DenseLayerSpec>& layers,
                                                   const std::set<std::string>& shared = {});

}  // namespace hugectr
