// SPDX-License-Identifier: Apache-2.0
// CMake makes a precompiled header for a target, and a target needs a source.
namespace hugectr {}
