# What `cmake --install` adds for users of the C++ API: static libraries, headers, and the package of
# find_package(Cohort) with the targets Cohort::coordinator, Cohort::in_process, Cohort::strategy and Cohort::plugin.
include(CMakePackageConfigHelpers)

# Sets `variable` to the targets of this tree that `ARGN` needs, themselves included.
function(cohort_closure variable)
  set(found)
  set(queue ${ARGN})
  while(queue)
    list(POP_FRONT queue target)
    if(NOT target MATCHES "^cohort_" OR NOT TARGET ${target} OR target IN_LIST found)
      continue()
    endif()
    list(APPEND found ${target})
    get_target_property(needs ${target} INTERFACE_LINK_LIBRARIES)
    if(needs)
      # A static library needs its private dependencies when a program is linked.
      list(TRANSFORM needs REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1")
      list(APPEND queue ${needs})
    endif()
  endwhile()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

cohort_closure(libraries cohort_coordinator cohort_in_process cohort_strategy)
set_target_properties(cohort_coordinator PROPERTIES EXPORT_NAME coordinator)
set_target_properties(cohort_in_process PROPERTIES EXPORT_NAME in_process)
set_target_properties(cohort_strategy PROPERTIES EXPORT_NAME strategy)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Cohort)
# The headers alone: a plugin finds Cohort's functions in the program that loads it, some of them not before
# they are called.
add_library(cohort_plugin_headers INTERFACE)
set_target_properties(cohort_plugin_headers PROPERTIES EXPORT_NAME plugin)
target_include_directories(cohort_plugin_headers INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
  $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/gen> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(cohort_plugin_headers INTERFACE cxx_std_20)
target_link_options(cohort_plugin_headers INTERFACE LINKER:-z,lazy)
list(APPEND libraries cohort_plugin_headers)
add_dependencies(cohort_suite ${libraries})
install(TARGETS ${libraries} EXPORT CohortTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT cohort-dev)
install(EXPORT CohortTargets NAMESPACE Cohort:: DESTINATION ${package} COMPONENT cohort-dev)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/CohortConfig.cmake.in
  ${CMAKE_BINARY_DIR}/package/CohortConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/CohortConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/CohortPlugin.cmake ${CMAKE_BINARY_DIR}/package/CohortConfig.cmake
  ${CMAKE_BINARY_DIR}/package/CohortConfigVersion.cmake
  DESTINATION ${package} COMPONENT cohort-dev)

install(CODE "
  set(cohort_source \"${CMAKE_SOURCE_DIR}\")
  set(cohort_generated \"${CMAKE_BINARY_DIR}/gen\")
  set(cohort_include \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")"
  SCRIPT ${CMAKE_CURRENT_LIST_DIR}/InstallHeaders.cmake
  COMPONENT cohort-dev)
