#ifndef COHORT_COMMON_MODEL_JOB_DEFAULTS_H_
#define COHORT_COMMON_MODEL_JOB_DEFAULTS_H_

#include <google/protobuf/message.h>

#include <string>

#include "proto/job.pb.h"

namespace cohort {

// The defaults of the job file; deploy/examples/every_key.yaml documents them, and a test compares.
// They are written into the message before the file is read over them, so that a 0 that the user
// wrote stays a 0.

// Of everything that is there once.
void SetJobDefaults(v1::JobSpec* job);

// Of a message that reading has just come to: datasets, sources, transforms. `path` tells the
// training set ("data.train") from others.
void SetReadingDefaults(const std::string& path, google::protobuf::Message* message);

// Defaults that depend on other keys, after reading: a validation set is other rows of the training
// set's, a checkpoint directory means a checkpoint per epoch.
void CompleteDefaults(v1::JobSpec* job);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_DEFAULTS_H_
