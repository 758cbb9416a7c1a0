# Arrow's C++ libraries, for the source `parquet` and for predictions as Parquet. PyPI's pyarrow has them with their headers:
#
#   python3 -m venv build/venv && build/venv/bin/pip install pyarrow
#   cmake --preset release -DCOHORT_ARROW_ROOT=build/venv/lib/python3.11/site-packages/pyarrow
#
# Without them, everything builds, and Parquet is refused by name. `cmake --install` copies the libraries to
# lib/cohort, where the installed programs look for them (COHORT_ARROW_RPATH, relative to the prefix).
set(COHORT_ARROW_ROOT "" CACHE PATH "The directory of the Python package pyarrow; default: that of build/venv")
set(cohort_arrow ${COHORT_ARROW_ROOT})
if(NOT cohort_arrow)
  file(GLOB cohort_arrow ${CMAKE_SOURCE_DIR}/build/venv/lib/python3*/site-packages/pyarrow)
  if(cohort_arrow)
    list(GET cohort_arrow 0 cohort_arrow)
  endif()
endif()
set(COHORT_ARROW_LIBRARIES "")
if(cohort_arrow)
  get_filename_component(cohort_arrow ${cohort_arrow} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
  foreach(library parquet arrow)
    file(GLOB found ${cohort_arrow}/lib${library}.so ${cohort_arrow}/lib${library}.so.[0-9]*
                    ${cohort_arrow}/lib/lib${library}.so)
    if(found)
      list(GET found 0 found)
      list(APPEND COHORT_ARROW_LIBRARIES ${found})
    endif()
  endforeach()
  list(LENGTH COHORT_ARROW_LIBRARIES found)
  set(COHORT_ARROW_INCLUDE ${cohort_arrow}/include)
  if(found LESS 2 OR NOT EXISTS ${COHORT_ARROW_INCLUDE}/parquet/arrow/reader.h)
    set(COHORT_ARROW_LIBRARIES "")
    if(COHORT_ARROW_ROOT)
      message(FATAL_ERROR "COHORT_ARROW_ROOT=${COHORT_ARROW_ROOT} has no libparquet, libarrow and include/parquet")
    endif()
  endif()
endif()
if(COHORT_ARROW_LIBRARIES)
  message(STATUS "Parquet: ${COHORT_ARROW_LIBRARIES}")
  set(COHORT_ARROW_RPATH lib/cohort)
  set(COHORT_ARROW_INSTALLED "")
  foreach(library ${COHORT_ARROW_LIBRARIES})
    # The name is that by which programs ask for it, whatever it links to.
    get_filename_component(name ${library} NAME)
    get_filename_component(contents ${library} REALPATH)
    install(FILES ${contents} DESTINATION ${COHORT_ARROW_RPATH} RENAME ${name} COMPONENT cohort)
    list(APPEND COHORT_ARROW_INSTALLED $<INSTALL_PREFIX>/${COHORT_ARROW_RPATH}/${name})
  endforeach()
  # With it, a test writes files.
  find_program(COHORT_ARROW_PYTHON python3 PATHS ${cohort_arrow}/../../../../bin NO_DEFAULT_PATH)
endif()
