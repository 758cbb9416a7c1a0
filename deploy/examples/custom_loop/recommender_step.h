#ifndef COHORT_DEPLOY_EXAMPLES_CUSTOM_LOOP_RECOMMENDER_STEP_H_
#define COHORT_DEPLOY_EXAMPLES_CUSTOM_LOOP_RECOMMENDER_STEP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/graph/program.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort::examples {

inline constexpr int64_t kBatch = 32;

// One training step of the recommender, traced from C++ expressions: three words in, embedding,
// mean, dense, sigmoid cross-entropy. Its output is the mean loss of the batch.
absl::StatusOr<Program> TrainStep();

// The variables that TrainStep reads, with their initializers, and what trains them.
std::vector<v1::VariableSpec> Variables();
v1::OptimizerSpec Optimizer();

// The words and labels of the tutorial, made up by a generator.
v1::DatasetSpec Data();

}  // namespace cohort::examples

#endif  // COHORT_DEPLOY_EXAMPLES_CUSTOM_LOOP_RECOMMENDER_STEP_H_
