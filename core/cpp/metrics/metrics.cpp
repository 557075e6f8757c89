// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/metrics/metrics.hpp"

namespace hugectr {

std::vector<EntryDescription> describe_metrics() { return describe_entries<Metrics>(); }

}  // namespace hugectr
