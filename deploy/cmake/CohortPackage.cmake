# What `cmake --install` adds for users of the C++ API: static libraries, headers, and the package of
# find_package(Cohort) with the targets Cohort::coordinator and Cohort::in_process.
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

cohort_closure(libraries cohort_coordinator cohort_in_process)
set_target_properties(cohort_coordinator PROPERTIES EXPORT_NAME coordinator)
set_target_properties(cohort_in_process PROPERTIES EXPORT_NAME in_process)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Cohort)
install(TARGETS ${libraries} EXPORT CohortTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT CohortTargets NAMESPACE Cohort:: DESTINATION ${package})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/CohortConfig.cmake.in
  ${CMAKE_BINARY_DIR}/package/CohortConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/CohortConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/CohortConfig.cmake ${CMAKE_BINARY_DIR}/package/CohortConfigVersion.cmake
  DESTINATION ${package})

install(CODE "
  set(cohort_source \"${CMAKE_SOURCE_DIR}\")
  set(cohort_generated \"${CMAKE_BINARY_DIR}/gen\")
  set(cohort_include \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")"
  SCRIPT ${CMAKE_CURRENT_LIST_DIR}/InstallHeaders.cmake)
