# Everything installs into the Python package, so that one wheel serves Python and C++ programs:
#   hugectr/libhugectr.so, hugectr/include/..., hugectr/lib/cmake/hugectr/hugectrConfig.cmake
include(CMakePackageConfigHelpers)

set(package hugectr)
set(cmake_dir ${package}/lib/cmake/hugectr)

# A wheel finds OpenBLAS in the package beside it. A build that is installed into the source tree
# finds it where it was linked.
set(openblas_rpath "$ORIGIN/../scipy_openblas32/lib")
if(NOT SKBUILD)
  string(APPEND openblas_rpath ":${HUGECTR_OPENBLAS_DIR}/lib")
endif()
set_target_properties(hugectr PROPERTIES INSTALL_RPATH "${openblas_rpath}" EXPORT_NAME hugectr)
target_include_directories(hugectr INTERFACE $<INSTALL_INTERFACE:${package}/include>)
target_compile_features(hugectr INTERFACE cxx_std_20)

install(TARGETS hugectr EXPORT hugectrTargets LIBRARY DESTINATION ${package} COMPONENT package)
install(DIRECTORY core/cpp DESTINATION ${package}/include/core COMPONENT package
        FILES_MATCHING PATTERN "*.hpp" PATTERN "hugectr.hpp" EXCLUDE)
install(FILES core/cpp/hugectr.hpp DESTINATION ${package}/include/hugectr COMPONENT package)
install(EXPORT hugectrTargets NAMESPACE hugectr:: DESTINATION ${cmake_dir} COMPONENT package)
configure_package_config_file(cmake/hugectrConfig.cmake.in ${PROJECT_BINARY_DIR}/hugectrConfig.cmake
                              INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hugectrConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hugectrConfig.cmake
              ${PROJECT_BINARY_DIR}/hugectrConfigVersion.cmake
        DESTINATION ${cmake_dir} COMPONENT package)
