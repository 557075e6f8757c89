// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cpp/base/export.hpp"

namespace hugectr {

enum class LogLevel : int { Debug = 0, Info = 1, Warning = 2, Error = 3, Silent = 4 };

/// Writes "[HCTR][hh:mm:ss][INFO][RK0][main]: message" to standard output (warnings and errors to
/// standard error). Lines of several threads never mix. HUGECTR_LOG_LEVEL sets the lowest level.
HCTR_API void log(LogLevel level, const std::string& message);
HCTR_API void set_log_level(LogLevel level);
HCTR_API void set_log_rank(int rank);

}  // namespace hugectr
