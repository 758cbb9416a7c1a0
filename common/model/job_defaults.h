#ifndef COHORT_COMMON_MODEL_JOB_DEFAULTS_H_
#define COHORT_COMMON_MODEL_JOB_DEFAULTS_H_

#include <google/protobuf/message.h>

#include <string>

#include "proto/job.pb.h"

namespace cohort {

// `fit.epochs` of a stream, whose windows are counted as epochs: more than any job has.
inline constexpr uint64_t kEpochsOfStream = uint64_t{1} << 31;

// The defaults of the job file; deploy/examples/every_key.yaml documents them, and a test compares.
// They are written into the message before the file is read over them, so that a 0 that the user
// wrote stays a 0.

// Sets the defaults of all parts that a job has once.
void SetJobDefaults(v1::JobSpec* job);

// Sets the defaults of a message that the reader has just created: a dataset, or the mixed
// precision. `path` distinguishes the training set ("data.train") from others.
void SetReadingDefaults(const std::string& path, google::protobuf::Message* message);

// Sets the defaults that depend on other keys, after reading. A validation set without a source has
// that of the training set; a checkpoint directory implies a checkpoint per epoch.
void CompleteDefaults(v1::JobSpec* job);

// Completes the arguments of the classes of a job that an older version wrote: it lacks newer
// arguments. A class that is unknown here stays as it is.
void CompleteClasses(v1::JobSpec* job);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_DEFAULTS_H_
