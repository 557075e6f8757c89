# Flags of every target, and how a room of core/cpp becomes part of libhugectr.

add_library(hugectr_flags INTERFACE)
target_include_directories(hugectr_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
# errno and floating-point traps are used nowhere; keeping them would stop loops from vectorising.
# Neither flag changes a result.
target_compile_options(hugectr_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers
                                               -fno-math-errno -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # Wrong for `"literal" + string` in these versions (GCC bug 105651); the second one where <string>
  # is precompiled, since it is then no system header any more.
  target_compile_options(hugectr_flags INTERFACE -Wno-restrict -Wno-stringop-overflow)
endif()
# GCC collects its garbage from 1 GiB on, not from 128 MiB: a fourteenth of a cold build for a fifth
# more memory (at most 0.8 GB a file).
target_compile_options(hugectr_flags INTERFACE
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1048576>")
if(HUGECTR_WERROR)
  target_compile_options(hugectr_flags INTERFACE -Werror)
endif()
if(HUGECTR_CPU_ARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(hugectr_flags INTERFACE -march=${HUGECTR_CPU_ARCH})
endif()
if(HUGECTR_SANITIZE)
  target_compile_options(hugectr_flags INTERFACE -fsanitize=${HUGECTR_SANITIZE}
                                                 -fno-omit-frame-pointer -g1)
  if(HUGECTR_SANITIZE MATCHES "undefined")
    target_compile_options(hugectr_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
  target_link_options(hugectr_flags INTERFACE -fsanitize=${HUGECTR_SANITIZE})
endif()
target_link_libraries(hugectr_flags INTERFACE Threads::Threads)

# Headers of the standard library that most files include, read once (a tenth of a cold build). A file still
# includes all it uses: with HUGECTR_UNITY=OFF, as .ci/run compiles, there is none.
if(HUGECTR_UNITY)
  add_library(hugectr_std OBJECT ${CMAKE_CURRENT_LIST_DIR}/std.cpp)
  target_link_libraries(hugectr_std PUBLIC hugectr_flags)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # ccache has to see which one a file was compiled with
    target_compile_options(hugectr_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
  target_precompile_headers(hugectr_std PRIVATE ${CMAKE_CURRENT_LIST_DIR}/std.hpp)
endif()

# A room is an OBJECT library: a static archive would drop self-registering ops. Its sources are
# compiled BATCH at a time (10 if unsaid): reading the headers takes most of a file's compile time,
# and a batch reads them once. So names of a room's anonymous namespaces must differ.
# Sources under ARRANGES hold no loop over numbers: optimising them further than -O1 only takes time.
function(hugectr_room name)
  cmake_parse_arguments(ROOM "" "BATCH" "SOURCES;ARRANGES" ${ARGN})
  if(NOT ROOM_BATCH)
    set(ROOM_BATCH 10)
  endif()
  if(ROOM_SOURCES)
    hugectr_part_of_room(hugectr_${name} ${ROOM_BATCH} ${ROOM_SOURCES})
  endif()
  if(ROOM_ARRANGES)
    hugectr_part_of_room(hugectr_${name}_arranges ${ROOM_BATCH} ${ROOM_ARRANGES})
    target_compile_options(hugectr_${name}_arranges PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

function(hugectr_part_of_room target batch)
  add_library(${target} OBJECT ${ARGN})
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${HUGECTR_UNITY} UNITY_BUILD_BATCH_SIZE ${batch})
  target_link_libraries(${target} PUBLIC hugectr_flags)
  if(HUGECTR_UNITY)
    target_precompile_headers(${target} REUSE_FROM hugectr_std)
  endif()
  set_property(GLOBAL APPEND PROPERTY HUGECTR_ROOMS ${target})
endfunction()

# The targets of rooms, in ${result}.
function(hugectr_targets_of_rooms result)
  set(found)
  foreach(room ${ARGN})
    foreach(target hugectr_${room} hugectr_${room}_arranges)
      if(TARGET ${target})
        list(APPEND found ${target})
      endif()
    endforeach()
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()
