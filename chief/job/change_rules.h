#ifndef COHORT_CHIEF_JOB_CHANGE_RULES_H_
#define COHORT_CHIEF_JOB_CHANGE_RULES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cohort {

// What a change of a key means for a job that continues from a checkpoint.
enum class Change : uint8_t {
  kContinues,     // the job continues, and the change is logged
  kAtEpochEnd,    // the job continues from a checkpoint that was taken at the end of an epoch
  kStepsOfEpoch,  // as kAtEpochEnd; from a checkpoint inside an epoch the job starts from weights
  kFromWeights,   // the job starts from the weights of the checkpoint
  kOtherJob,      // it is another job
};

struct ChangeRule {
  // Keys as in job_keys.h, separated by ", ". A key also stands for all keys below it that have no
  // rule of their own.
  std::string_view keys;
  Change change = Change::kOtherJob;
  std::string_view why;  // one sentence for docs/checkpoints.md
};

// All rules, in the order of docs/checkpoints.md. A key without a rule makes another job.
std::span<const ChangeRule> ChangeRules();

// Returns the change of a key such as "model.layers[1].units": that of the longest key in the rules
// that is equal or above it.
Change ChangeOf(std::string_view key);

// Returns the table of docs/checkpoints.md in Markdown. A test compares the two.
std::string ChangeTable();

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_CHANGE_RULES_H_
