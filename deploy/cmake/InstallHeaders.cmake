# Runs within `cmake --install`: makes the headers of the C++ API. Each consists of headers of the tree, which
# are small because much is compiled with them; a user of the API wants few. Only what stands here is installed:
# if one of these headers includes another header of the tree, the installation fails.
#
# Reads cohort_source, cohort_generated (the parent of the generated proto/) and cohort_include (the target).
cmake_policy(VERSION 3.25)

# api_header(NAME a.h b.h ...): cohort/NAME consists of a.h, b.h, ..., in this order.
set(headers)
macro(api_header name)
  list(APPEND headers ${name})
  set(parts_${name} ${ARGN})
  foreach(part ${ARGN})
    set(home_${part} ${name})
  endforeach()
endmacro()

# What users include.
api_header(cohort.h include/cohort/cohort.h)
api_header(in_process.h include/cohort/in_process.h common/device/device_options.h
  deploy/in_process/in_process_cluster.h)
api_header(strategy.h include/cohort/strategy.h common/model/strategies.h deploy/strategy/distributed_dataset.h
  deploy/strategy/per_replica.h deploy/strategy/strategy_options.h deploy/strategy/strategy.h)
api_header(plugin.h include/cohort/plugin.h common/base/version.h common/plugin/plugin_info.h
  common/plugin/plugin_registry.h)
# What these include.
api_header(base.h common/base/status.h common/base/exit_code.h common/base/prepare_process.h common/base/flags.h common/base/clock.h
  common/base/mutex.h common/base/log.h)
api_header(tensor.h common/tensor/dtype.h common/tensor/buffer.h common/tensor/table_rows.h common/tensor/tensor.h)
api_header(config.pb.h proto/config.pb.h)
api_header(schema.h common/schema/class_schema.h common/schema/class_registry.h)
api_header(program.h common/graph/loss_scale.h common/metrics/metric_state.h common/graph/program.h
  common/graph/program_builder.h common/graph/expr.h common/graph/autodiff.h)
api_header(data.h common/data/feature_type.h common/data/record_source.h common/data/data_options.h common/data/file_blocks.h
  common/data/source_class.h common/data/transform_class.h)
api_header(layers.h common/model/layers/layer.h common/model/activations.h common/model/losses/loss.h
  common/metrics/finalizers.h common/model/metrics/metric.h)
api_header(cluster.h common/cluster/address.h common/cluster/cluster_spec.h common/cluster/role_flags.h)
api_header(coordinator.h common/base/fnv1a.h common/graph/consistency_mode.h chief/core/core_counters.h
  chief/core/job_settings.h chief/core/core_state.h chief/core/closure_spec.h chief/api/remote_value.h
  chief/api/coordinator_state.h chief/api/training_cluster.h chief/api/coordinator.h chief/api/chief_role.h
  common/plugin/load_plugins.h)
api_header(model.h chief/api/keras_class.h chief/api/partitioners.h chief/api/variable_set.h
  chief/api/step_trace.h chief/api/model.h chief/api/dataset_builder.h)

foreach(header ${headers})
  set(includes)
  set(body "")
  foreach(part ${parts_${header}})
    set(path ${cohort_source}/${part})
    if(NOT EXISTS ${path})
      set(path ${cohort_generated}/${part})
    endif()
    file(READ ${path} text)
    string(REGEX MATCHALL "\n#include [<\"][^>\"]+[>\"]" lines "${text}")
    foreach(line ${lines})
      string(STRIP "${line}" line)
      if(line MATCHES "\"(cohort/)?(.*)\"")
        set(included ${CMAKE_MATCH_2})
        if(CMAKE_MATCH_1)
          set(included include/cohort/${included})
        endif()
        if(NOT DEFINED home_${included})
          message(FATAL_ERROR "${part} includes ${included}, which is not listed in InstallHeaders.cmake")
        endif()
        set(line "#include \"cohort/${home_${included}}\"")
      endif()
      if(NOT line STREQUAL "#include \"cohort/${header}\"")
        list(APPEND includes "${line}")
      endif()
    endforeach()
    if(NOT part MATCHES "[.]pb[.]h$")  # a generated header stays as it is
      string(REGEX REPLACE "^#ifndef [A-Z0-9_]+\n#define [A-Z0-9_]+\n" "" text "${text}")
      string(REGEX REPLACE "\n#endif[^\n]*\n$" "\n" text "${text}")
      string(REGEX REPLACE "\n#include [<\"][^>\"]+[>\"]" "" text "${text}")
    endif()
    string(APPEND body "${text}")
  endforeach()
  if(NOT header MATCHES "[.]pb[.]h$")
    list(REMOVE_DUPLICATES includes)
    list(SORT includes)
    set(own ${includes})
    list(FILTER own INCLUDE REGEX "\"")
    list(FILTER includes EXCLUDE REGEX "\"")
    list(JOIN includes "\n" includes)
    list(JOIN own "\n" own)
    string(REPLACE "}  // namespace cohort\n\nnamespace cohort {\n\n" "" body "${body}")
    string(STRIP "${body}" body)
    string(REGEX REPLACE "[.-]" "_" guard "COHORT_${header}_")
    string(TOUPPER ${guard} guard)
    set(body "#ifndef ${guard}\n#define ${guard}\n\n${includes}\n\n${own}\n\n${body}\n\n#endif  // ${guard}\n")
    string(REGEX REPLACE "\n\n\n+" "\n\n" body "${body}")
  endif()
  set(destination ${cohort_include}/cohort/${header})
  message(STATUS "Installing: $ENV{DESTDIR}${destination}")
  file(WRITE $ENV{DESTDIR}${destination} "${body}")
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${destination})
endforeach()
