#ifndef COHORT_TESTS_CLUSTER_JOBS_H_
#define COHORT_TESTS_CLUSTER_JOBS_H_

#include <string>

namespace cohort {

// A new empty directory under the system's temporary one, named after the test; an older one of the
// same name is removed.
std::string FreshDirectory(const std::string& name);

// The text of a job of deploy/examples.
std::string ExampleJob(const std::string& file);

// The recommender, asynchronous, exactly-once data, `epochs` epochs of 320 records in batches of
// 32, a checkpoint every `checkpoint_steps` steps (0: only the last).
std::string RecommenderJob(int epochs, int checkpoint_steps);

// The same job with a validation set of other records.
std::string WithValidation(std::string job);

// A job for killing: small steps, short epochs, a checkpoint now and then.
std::string StormJob(int epochs);

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_JOBS_H_
