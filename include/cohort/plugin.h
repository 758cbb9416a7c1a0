#ifndef COHORT_INCLUDE_COHORT_PLUGIN_H_
#define COHORT_INCLUDE_COHORT_PLUGIN_H_

// Classes of your own in a shared library, which every program of Cohort loads by --plugin FILE.so.
// Build it with cohort_add_plugin of the CMake package; docs/plugins.md has the rules, and
// share/cohort/examples/plugin an example.
//
//   COHORT_PLUGIN, PluginRegistry                   what the library defines, and adds classes to
//   SourceClass, RecordSource                       records by index
//   TransformClass, RecordTransform                 changes of columns
//   LayerClass, LossClass, MetricClass              functions over expressions (Expr)
//   FinalizerClass                                  a metric's value from its accumulators
//   ClassSchema, Int, Float, String, Config, ...    arguments

#include "common/base/status.h"
#include "common/data/record_source.h"
#include "common/data/source_class.h"
#include "common/data/transform_class.h"
#include "common/graph/expr.h"
#include "common/metrics/finalizers.h"
#include "common/model/activations.h"
#include "common/model/layers/layer.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"
#include "common/plugin/plugin_registry.h"
#include "common/schema/class_schema.h"

#endif  // COHORT_INCLUDE_COHORT_PLUGIN_H_
