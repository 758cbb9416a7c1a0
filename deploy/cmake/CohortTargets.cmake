# cohort_library(NAME SRCS a.cc b.cc DEPS x y): one static library per folder.
function(cohort_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${name} STATIC ${ARG_SRCS})
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE cohort_flags)
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  endif()
endfunction()

# cohort_binary(NAME SRCS main.cc DEPS x): an installed program in build/<preset>/bin.
function(cohort_binary name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} cohort_flags)
  if(NOT COHORT_SANITIZER)
    target_link_libraries(${name} PRIVATE mimalloc)
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

if(BUILD_TESTING OR NOT DEFINED BUILD_TESTING)
  add_library(cohort_catch_main STATIC ${CMAKE_SOURCE_DIR}/tests/catch_main.cc)
  target_link_libraries(cohort_catch_main PUBLIC Catch2::Catch2 PRIVATE cohort_flags)
  # All test programs of this tree: what a sanitizer tree builds.
  add_custom_target(cohort_tests)
endif()

# cohort_test(NAME SRCS x_test.cc DEPS lib LABELS asan tsan TIMEOUT 60 ARGS ...): a Catch2 test
# program. LABELS: `asan` and `tsan` name the sanitizer trees that build and run it besides dev and release;
# `long` keeps it out of CI. In a sanitizer tree a test without that label is not built, unless with
# COHORT_ALL_TESTS. NOT_UNDER_TSAN: it replaces operator new, as the thread sanitizer does; there it
# is skipped by name.
function(cohort_test name)
  cmake_parse_arguments(ARG "NOT_UNDER_TSAN" "TIMEOUT" "SRCS;DEPS;LABELS;ARGS" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(COHORT_SANITIZER STREQUAL "address" AND NOT "asan" IN_LIST ARG_LABELS AND NOT COHORT_ALL_TESTS)
    return()
  endif()
  if(COHORT_SANITIZER STREQUAL "thread" AND NOT "tsan" IN_LIST ARG_LABELS AND NOT COHORT_ALL_TESTS)
    return()
  endif()
  if(COHORT_SANITIZER STREQUAL "thread" AND ARG_NOT_UNDER_TSAN)
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E false)
    set_tests_properties(${name} PROPERTIES DISABLED TRUE)
    return()
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} cohort_catch_main cohort_flags)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # At -O3 GCC 12 sees overlaps in std::string that are not there (its bug 105651).
    target_compile_options(${name} PRIVATE -Wno-restrict)
  endif()
  add_dependencies(cohort_tests ${name})
  # Test files have fixtures of the same names.
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(environment "COHORT_SOURCE_DIR=${CMAKE_SOURCE_DIR};COHORT_BINARY_DIR=${CMAKE_BINARY_DIR}")
  if(COHORT_SANITIZER STREQUAL "address")
    list(APPEND environment
      "LSAN_OPTIONS=print_suppressions=0:suppressions=${CMAKE_SOURCE_DIR}/tests/lsan_suppressions.txt")
  elseif(COHORT_SANITIZER STREQUAL "thread")
    # "ignore_noninstrumented_modules": what gRPC's libraries copy, free or read is not looked at.
    list(APPEND environment "TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan_suppressions.txt")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "${environment}")
endfunction()

# cohort_python_test(NAME SCRIPT x_test.py ARGS ... MODULES tensorboard LABELS long TIMEOUT 60): a test
# in Python. tests/lint/with_python.py chooses the interpreter (build/venv's, which tests/run.sh makes,
# else the system's); where it lacks a module the test is skipped by name. Not in sanitizer trees.
function(cohort_python_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;SCRIPT" "ARGS;MODULES;LABELS" ${ARGN})
  if(NOT BUILD_TESTING OR COHORT_SANITIZER)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  find_program(COHORT_PYTHON3 python3 REQUIRED)
  string(REPLACE ";" "," modules "${ARG_MODULES}")
  get_filename_component(script ${ARG_SCRIPT} ABSOLUTE)
  add_test(NAME ${name} COMMAND ${COHORT_PYTHON3} ${CMAKE_SOURCE_DIR}/tests/lint/with_python.py
    "--modules=${modules}" ${script} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    SKIP_RETURN_CODE 77
    ENVIRONMENT "COHORT_SOURCE_DIR=${CMAKE_SOURCE_DIR};COHORT_BINARY_DIR=${CMAKE_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/python")
endfunction()
