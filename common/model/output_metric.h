#ifndef COHORT_COMMON_MODEL_OUTPUT_METRIC_H_
#define COHORT_COMMON_MODEL_OUTPUT_METRIC_H_

#include <string>

#include "proto/job.pb.h"

namespace cohort {

// Adds a metric of the output `output` ("": the only one). It is reported as Keras does: under the
// string `given` that names it ("": under its argument `name`), with several outputs as
// "<output>_<name>". `config` is complete.
void AddOutputMetric(v1::ClassConfig config, const std::string& given, const std::string& output,
                     v1::CompileSpec* compile);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_OUTPUT_METRIC_H_
