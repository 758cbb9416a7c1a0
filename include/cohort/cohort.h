#ifndef COHORT_INCLUDE_COHORT_COHORT_H_
#define COHORT_INCLUDE_COHORT_COHORT_H_

// The C++ API of Cohort: a training loop over parameter servers, as those that are written with
// tf.distribute.coordinator.ClusterCoordinator. Link Cohort::coordinator. Every name is in the
// namespace cohort. Errors are absl::Status; no call throws.
//
//   VariableSet, KerasClass, partitioners     variables, their first values, the optimizer
//   TraceStep, Expr                           step functions with gradients
//   Layer, BuildModel                         layers and models of Keras for step functions
//   Layers, Losses, Metrics, Sources, ...     registries for classes of your own
//   DatasetBuilder                            datasets that every worker reads
//   ClusterCoordinator, RemoteValue, Fetch    scheduling steps, waiting for them, their results
//   FlagSet, RoleContext                      command line and TF_CONFIG of a program of its own
//
// cohort/in_process.h has a cluster within the same process. cohort/plugin.h is for plugins, whose
// classes all tasks know. The others are parts of these.

#include "chief/api/chief_role.h"
#include "chief/api/coordinator.h"
#include "chief/api/dataset_builder.h"
#include "chief/api/keras_class.h"
#include "chief/api/model.h"
#include "chief/api/partitioners.h"
#include "chief/api/step_trace.h"
#include "chief/api/variable_set.h"
#include "cohort/plugin.h"
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/prepare_process.h"
#include "common/base/status.h"
#include "common/cluster/role_flags.h"
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "common/plugin/load_plugins.h"
#include "common/tensor/tensor.h"

#endif  // COHORT_INCLUDE_COHORT_COHORT_H_
