# Language level, warnings and the switches of a build tree.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
# The same flags for libraries and programs, with gRPC and without, so that they share precompiled headers.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fPIC;-pthread;-fno-math-errno>")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(COHORT_SANITIZER "" CACHE STRING "address (and undefined behavior), thread or empty")
# Warnings of a compiler that CI does not have must not stop a user's build. A tree that was configured with
# another value keeps it, so that a later configuration does not rebuild it.
set(werror ON)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(werror OFF)
endif()
option(COHORT_WERROR "Warnings are errors" ${werror})

add_library(cohort_flags INTERFACE)
target_include_directories(cohort_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
target_compile_options(cohort_flags INTERFACE
  -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(cohort_flags INTERFACE -Wthread-safety)
else()
  # GCC 12 sees overlaps and overflows inside std::string that do not exist (its bug 105651 and others). Clang,
  # which builds the sanitizers' trees, keeps its own warnings of this kind.
  # In a unity build it takes each file's anonymous namespace for one in a header (-Wsubobject-linkage).
  target_compile_options(cohort_flags INTERFACE -Wno-subobject-linkage
    -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(COHORT_WERROR)
  target_compile_options(cohort_flags INTERFACE -Werror)
endif()
if(COHORT_SANITIZER)
  set(sanitizers -fsanitize=${COHORT_SANITIZER})
  if(COHORT_SANITIZER STREQUAL "address")
    # Without the checks of each pointer, which would double the time to compile: the address sanitizer finds
    # null pointers, and the processor allows any alignment. "vptr" needs type information that Debian's gRPC
    # does not export.
    set(sanitizers -fsanitize=address,undefined -fno-sanitize=null,alignment,object-size,vptr
                   -fno-sanitize-recover=undefined)
  endif()
  target_compile_options(cohort_flags INTERFACE ${sanitizers} -fno-omit-frame-pointer)
  target_link_options(cohort_flags INTERFACE ${sanitizers})
endif()

find_program(COHORT_CCACHE ccache)
if(COHORT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache and precompiled headers: its manual asks for these three.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${COHORT_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
  else()
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()
find_program(COHORT_MOLD mold)
if(COHORT_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
