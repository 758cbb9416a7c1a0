#ifndef COHORT_CHIEF_JOB_JOB_KEYS_H_
#define COHORT_CHIEF_JOB_JOB_KEYS_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chief/job/change_rules.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

// What a job consists of: its keys with the texts of their values, such as
//
//   model.layers[1].units        16                     a field of JobSpec that is set
//   compile.optimizer.momentum   0.9                    an argument of a class
//   data.train.transforms[0].vocabulary   900 values, hash 0123456789abcdef   a long list
//   variables.dense/kernel       float32 [8, 16]        from the model
//   compile.optimizer.slots      momentum, velocity     from the optimizer's rule
//   servers                      2                      from the cluster
using JobKeys = std::map<std::string, std::string>;

// Returns the keys of a job file.
JobKeys KeysOfSpec(const v1::JobSpec& spec);
// Adds the keys of the model.
void AddVariables(const google::protobuf::RepeatedPtrField<v1::VariableSpec>& variables,
                  std::span<const v1::OptimizerSpec> optimizers, JobKeys* keys);
void AddServers(uint32_t servers, JobKeys* keys);

// Returns the keys that make another job if they change.
v1::JobIdentity IdentityOf(const JobKeys& keys);

// Returns the job that wrote a manifest, in the form of this version (UpgradeJob).
v1::JobSpec SpecOfManifest(const v1::Manifest& manifest);
// Returns the keys of the job that wrote a manifest; nullopt if the manifest does not contain its
// JobSpec. The keys of its identity are those that its writer stored, if this version can compare
// them.
std::optional<JobKeys> KeysOfManifest(const v1::Manifest& manifest);

// Returns the names of the job's metrics of which a smaller value is better.
std::vector<std::string> MetricsToMinimize(const v1::JobSpec& spec);

struct KeyChange {
  std::string key;
  std::string then;  // "not set" if there was no value
  std::string now;
  Change change = Change::kOtherJob;
};

// Returns the keys whose values differ, by key.
std::vector<KeyChange> ChangesOf(const JobKeys& then, const JobKeys& now);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_KEYS_H_
