# The headers that nearly every file includes are compiled once: one set for the sources, one with Catch for
# the tests. No project header is in them, so that an edit never recompiles everything.
set(COHORT_PRECOMPILED_HEADERS
  <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <cstring> <deque> <functional> <map>
  <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view> <thread> <utility> <vector>
  <absl/base/thread_annotations.h> <absl/container/flat_hash_map.h> <absl/status/status.h>
  <absl/status/statusor.h> <fmt/format.h> <google/protobuf/message.h> <google/protobuf/map.h>)

# cohort_precompile(NAME HEADERS ...): a set that targets name with REUSE_FROM.
function(cohort_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gen/${name}.cc CONTENT "// Only its headers count.\n")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/gen/${name}.cc)
  target_link_libraries(${name} PRIVATE absl::base absl::flat_hash_map absl::statusor fmt::fmt
                        protobuf::libprotobuf ${ARG_DEPS} cohort_flags)
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
endfunction()
cohort_precompile(cohort_precompiled HEADERS ${COHORT_PRECOMPILED_HEADERS})

# cohort_library(NAME SRCS a.cc b.cc DEPS x y): a static library. OWN_FLAGS: its compile options differ from
# those of the precompiled headers, so it does without them.
function(cohort_library name)
  cmake_parse_arguments(ARG "OWN_FLAGS" "" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${name} STATIC ${ARG_SRCS})
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:cohort_flags>)
    target_include_directories(${name} PUBLIC
      $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/gen>)
    if(NOT ARG_OWN_FLAGS)
      target_precompile_headers(${name} REUSE_FROM cohort_precompiled)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  endif()
endfunction()

# All that `cmake --install` needs: what deploy/quickstart.sh builds.
add_custom_target(cohort_suite)

# cohort_binary(NAME SRCS main.cc DEPS x): an installed program in build/<preset>/bin. EXAMPLE: the Debian packages
# do not have it. HELPER: only other programs start it, so it is installed in libexec/cohort.
function(cohort_binary name)
  cmake_parse_arguments(ARG "EXAMPLE;HELPER" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} cohort_flags)
  target_precompile_headers(${name} REUSE_FROM cohort_precompiled)
  if(NOT COHORT_SANITIZER)
    target_link_libraries(${name} PRIVATE mimalloc)
  endif()
  set(component cohort)
  if(ARG_EXAMPLE)
    set(component examples)
  endif()
  add_dependencies(cohort_suite ${name})
  set(destination ${CMAKE_INSTALL_BINDIR})
  if(ARG_HELPER)
    set(destination libexec/cohort)
  endif()
  if(COHORT_ARROW_LIBRARIES)
    file(RELATIVE_PATH up /prefix/${destination} /prefix/${COHORT_ARROW_RPATH})
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/${up}")
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${destination} COMPONENT ${component})
endfunction()

if(BUILD_TESTING OR NOT DEFINED BUILD_TESTING)
  add_library(cohort_catch_main STATIC ${CMAKE_SOURCE_DIR}/tests/catch_main.cc)
  target_link_libraries(cohort_catch_main PUBLIC Catch2::Catch2 PRIVATE cohort_base cohort_flags cohort_test_flags)
  # All test programs of this tree: what a sanitizer tree builds.
  add_custom_target(cohort_tests)
  # What tests do is quick; what they test is optimized.
  add_library(cohort_test_flags INTERFACE)
  if(COHORT_SANITIZER)
    target_compile_options(cohort_test_flags INTERFACE -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(cohort_test_flags INTERFACE -O1)
  endif()
  cohort_precompile(cohort_precompiled_tests
    HEADERS ${COHORT_PRECOMPILED_HEADERS} <catch2/catch.hpp>
    DEPS Catch2::Catch2 cohort_test_flags)
endif()

# cohort_test(NAME SRCS x_test.cc DEPS lib ...): a Catch2 test program. A room has one; see CONTRIBUTING.md.
#   THREADS y_test.cc   sources whose tests start threads: the only ones that the thread sanitizer's tree builds
#   SUPPORT util.cc     sources without tests, built wherever the program is
#   LABELS long         keeps it out of CI
#   ARGS, TIMEOUT       of the program; TIMEOUT in seconds
#   NO_TSAN        it replaces operator new, as the thread sanitizer does: there it is skipped by name
#   RELEASE_ONLY        sanitizer trees do not build it: it runs the daemons as processes, or checks numbers
# With COHORT_ALL_TESTS the sanitizers' trees build all sources of all tests.
function(cohort_test name)
  cmake_parse_arguments(ARG "NO_TSAN;RELEASE_ONLY" "TIMEOUT" "SRCS;THREADS;SUPPORT;DEPS;LABELS;ARGS" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(COHORT_SANITIZER STREQUAL "thread" AND ARG_NO_TSAN)
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E false)
    set_tests_properties(${name} PROPERTIES DISABLED TRUE)
    return()
  endif()
  if(COHORT_SANITIZER AND ARG_RELEASE_ONLY AND NOT COHORT_ALL_TESTS)
    return()
  endif()
  set(sources ${ARG_SRCS} ${ARG_THREADS})
  if(COHORT_SANITIZER STREQUAL "thread" AND NOT COHORT_ALL_TESTS)
    set(sources ${ARG_THREADS})
  endif()
  if(NOT sources)
    return()
  endif()
  if(NOT TARGET ${name})
    add_executable(${name} ${sources} ${ARG_SUPPORT})
    target_link_libraries(${name} PRIVATE ${ARG_DEPS} cohort_catch_main cohort_flags cohort_test_flags)
    target_precompile_headers(${name} REUSE_FROM cohort_precompiled_tests)
    add_dependencies(cohort_tests ${name})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endif()
  cohort_add_test(${name} PROGRAM ${name} ARGS ${ARG_ARGS} TIMEOUT ${ARG_TIMEOUT} LABELS ${ARG_LABELS})
endfunction()

# Sets `variable` to the label of this folder's tests: "folder:common/base". tests/run.sh --since selects by it.
function(cohort_folder_label variable)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(${variable} "folder:${folder}" PARENT_SCOPE)
endfunction()

# cohort_add_test(NAME PROGRAM program ARGS ... TIMEOUT 60 LABELS ...): one run of a test program.
function(cohort_add_test name)
  cmake_parse_arguments(ARG "" "PROGRAM;TIMEOUT" "ARGS;LABELS" ${ARGN})
  if(NOT TARGET ${ARG_PROGRAM})
    return()
  endif()
  add_test(NAME ${name} COMMAND ${ARG_PROGRAM} ${ARG_ARGS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set(environment "COHORT_SOURCE_DIR=${CMAKE_SOURCE_DIR};COHORT_BINARY_DIR=${CMAKE_BINARY_DIR}")
  if(COHORT_SANITIZER STREQUAL "address")
    list(APPEND environment
      "LSAN_OPTIONS=print_suppressions=0:suppressions=${CMAKE_SOURCE_DIR}/tests/lsan_suppressions.txt")
  elseif(COHORT_SANITIZER STREQUAL "thread")
    # "ignore_noninstrumented_modules": what gRPC's libraries copy, free or read is not looked at.
    list(APPEND environment "TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan_suppressions.txt")
  endif()
  cohort_folder_label(folder)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS};${folder}"
    SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
endfunction()

# cohort_on_device(NAME [DEVICES]): this test's program runs on the simulated device, or on several.
function(cohort_on_device name)
  set(devices simulated:0)
  if(ARGC GREATER 1)
    set(devices ${ARGV1})
  endif()
  if(TEST ${name})
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "COHORT_TEST_DEVICE=${devices}")
  endif()
endfunction()

# cohort_gpu_test(NAME PROGRAM program): a run of a test program on the first GPU; skipped by name if there
# is none.
function(cohort_gpu_test name program)
  if(NOT BUILD_TESTING OR NOT COHORT_CUDA)
    return()
  endif()
  add_test(NAME ${name} COMMAND sh -c
    "$<TARGET_FILE:cohort-doctor> --devices cuda:0 > /dev/null || exit 77; exec $<TARGET_FILE:${program}>")
  cohort_folder_label(folder)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS "${folder}" SKIP_RETURN_CODE 77
    ENVIRONMENT "COHORT_SOURCE_DIR=${CMAKE_SOURCE_DIR};COHORT_TEST_DEVICE=cuda:0")
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
  cohort_folder_label(folder)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS};${folder}"
    SKIP_RETURN_CODE 77
    ENVIRONMENT "COHORT_SOURCE_DIR=${CMAKE_SOURCE_DIR};COHORT_BINARY_DIR=${CMAKE_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/python")
endfunction()
