# The CUDA plug-in (core/cuda) is built when it is asked for, with AUTO when it can be. It needs nvcc
# 13: from a toolkit on the machine or from pip wheels in the interpreter's site-packages.

if(NOT HUGECTR_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "HUGECTR_CUDA is \"${HUGECTR_CUDA}\"; allowed are AUTO, ON and OFF.")
endif()

# Sets ${result} to the path of an nvcc of major version 13, or to an empty string; ${reason} says
# why there is none.
function(hugectr_find_nvcc result reason)
  set(${result} "" PARENT_SCOPE)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('platlib'))"
    OUTPUT_VARIABLE site OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_program(HUGECTR_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH
                                       ${site}/nvidia/cu13 /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(HUGECTR_NVCC)
  if(NOT HUGECTR_NVCC)
    set(${reason} "no nvcc was found (set CUDA_HOME, or pip install \"cuda-toolkit[nvcc,cudart,cccl,cublas]==13.0.*\")" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${HUGECTR_NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(text MATCHES "release 13\\.")
    set(${result} ${HUGECTR_NVCC} PARENT_SCOPE)
  else()
    string(REGEX MATCH "release [0-9.]+" found "${text}")
    set(${reason} "${HUGECTR_NVCC} is ${found}; release 13 is needed" PARENT_SCOPE)
  endif()
endfunction()

if(HUGECTR_CUDA STREQUAL "OFF")
  message(STATUS "CUDA plug-in: off")
else()
  set(nvcc "")
  set(why "the sources hold no core/cuda")
  if(EXISTS ${PROJECT_SOURCE_DIR}/core/cuda/CMakeLists.txt)
    hugectr_find_nvcc(nvcc why)
  endif()
  if(nvcc)
    message(STATUS "CUDA plug-in: on, ${nvcc}")
    set(default_archs 90)
    if(SKBUILD)  # a wheel serves Ampere, Hopper and Blackwell, and what comes by the PTX of the last
      set(default_archs 80-real 90-real 100)
    endif()
    set(HUGECTR_CUDA_ARCHS "${default_archs}" CACHE STRING
        "Compute capabilities the CUDA plug-in holds code for, e.g. 80;90;100")
    set(CMAKE_CUDA_COMPILER ${nvcc})
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
    set(CMAKE_CUDA_ARCHITECTURES ${HUGECTR_CUDA_ARCHS})
    if(HUGECTR_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${HUGECTR_CCACHE})
    endif()
    enable_language(CUDA)
    add_subdirectory(core/cuda)
  elseif(HUGECTR_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HUGECTR_CUDA=ON, but ${why}. Use HUGECTR_CUDA=OFF for a CPU build.")
  else()
    message(STATUS "CUDA plug-in: off, ${why}")
  endif()
endif()
