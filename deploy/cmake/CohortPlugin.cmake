# cohort_add_plugin(NAME a.cc b.cc ...): NAME.so, for --plugin. Other libraries may be linked to the target NAME.
function(cohort_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "")
  target_link_libraries(${name} PRIVATE Cohort::plugin)
endfunction()
