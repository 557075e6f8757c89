# GEMM comes from the scipy-openblas32 wheel (LP64, symbols prefixed scipy_); see docs/decisions.md.
if(NOT HUGECTR_OPENBLAS_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import scipy_openblas32, os; print(os.path.dirname(scipy_openblas32.__file__))"
    OUTPUT_VARIABLE HUGECTR_OPENBLAS_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT EXISTS "${HUGECTR_OPENBLAS_DIR}/lib/libscipy_openblas.so")
  message(FATAL_ERROR "No OpenBLAS found for ${Python_EXECUTABLE}. Run: "
                      "${Python_EXECUTABLE} -m pip install scipy-openblas32, "
                      "or set HUGECTR_OPENBLAS_DIR to the folder of that package.")
endif()
add_library(hugectr_openblas INTERFACE)
target_include_directories(hugectr_openblas SYSTEM INTERFACE ${HUGECTR_OPENBLAS_DIR}/include)
target_link_libraries(hugectr_openblas INTERFACE ${HUGECTR_OPENBLAS_DIR}/lib/libscipy_openblas.so)
