# hugectr/_core: the one compiled Python module, for CPython's stable ABI of 3.11 and later.

# The cython-cmake wheel of the interpreter, unless scikit-build-core has put it on the path.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "import cython_cmake, os; print(os.path.dirname(cython_cmake.__file__))"
  OUTPUT_VARIABLE cython_cmake OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(cython_cmake)
  list(APPEND CMAKE_MODULE_PATH ${cython_cmake}/cmake)
endif()
find_package(Cython 3.1 REQUIRED)
include(UseCython)

# Needs nothing that is compiled (CMake 3.27 and later): the longest chain starts first.
set(CMAKE_ADD_CUSTOM_COMMAND_DEPENDS_EXPLICIT_ONLY ON)
cython_transpile(hugectr/_core.pyx LANGUAGE CXX OUTPUT_VARIABLE core_source
                 CYTHON_ARGS -3 --module-name hugectr._core -I ${PROJECT_SOURCE_DIR}
                             -X boundscheck=False -X wraparound=False -X embedsignature=True)
add_library(_core_code OBJECT ${core_source})
target_link_libraries(_core_code PRIVATE hugectr_flags Python::SABIModule)
target_compile_definitions(_core_code PRIVATE HUGECTR_VERSION="${PROJECT_VERSION}" Py_LIMITED_API=0x030b0000)
# It hands calls on and computes nothing: optimising it further only takes time (docs/decisions.md).
target_compile_options(_core_code PRIVATE $<$<CONFIG:Release>:-Og>)
# Cython's C++ is not ours to keep free of these.
target_compile_options(_core_code PRIVATE -Wno-unused-parameter -Wno-cast-function-type -Wno-unused-function)
if(HUGECTR_UNITY)
  target_precompile_headers(_core_code REUSE_FROM hugectr_std)
endif()
# The model needs nothing of it: so the file that takes longest starts early, instead of being the last one alone.
add_custom_command(OUTPUT core_code_compiled COMMAND ${CMAKE_COMMAND} -E touch core_code_compiled
                   DEPENDS $<TARGET_OBJECTS:_core_code>)
add_custom_target(core_code_first DEPENDS core_code_compiled)
add_dependencies(hugectr_model_arranges core_code_first)
python_add_library(_core MODULE $<TARGET_OBJECTS:_core_code> WITH_SOABI USE_SABI 3.11)
target_link_libraries(_core PRIVATE hugectr_flags hugectr)
set_target_properties(_core PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS _core LIBRARY DESTINATION hugectr COMPONENT package)
