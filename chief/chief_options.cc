#include "chief/chief_options.h"

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"

namespace cohort {

void AddChiefFlags(FlagSet* flags, ChiefFlags* out) {
  AddRoleFlags(flags, &out->role);
  flags->AddPositional("JOB.yaml", &out->job, "what to train", true);
  flags->Add(
      "checkpoint_dir", &out->checkpoint_dir,
      "directory of checkpoints and the journal, seen by the chief and every ps; default: the "
      "job file's");
  flags->Add("log_dir", &out->log_dir, "directory of metrics.jsonl and TensorBoard's files");
  flags->Add("fresh", &out->fresh, "delete the checkpoints of former runs and begin anew");
  flags->Add(
      "finished_ok", &out->finished_ok,
      "a job that is finished already is no error: say so and exit with 0 (for whatever starts "
      "the chief again)");
  flags->Add(
      "takeover", &out->takeover,
      "the chief that the tasks still hear, or that has the checkpoint directory, is dead or "
      "shall end: take them over");
  flags->AddSeconds(
      "task_timeout_s", &out->task_timeout_s,
      "seconds to wait for a task at the start, or for a lost one; 0: the job file's");
}

absl::StatusOr<Chief::Options> MakeChiefOptions(const ChiefFlags& flags, const RoleContext& context,
                                                const char* data_dir) {
  Chief::Options options;
  JobRunnerOptions& job = options.job;
  COHORT_ASSIGN_OR_RETURN(job.job, ReadJobFile(flags.job));
  job.cluster = context.cluster;
  job.data.data_dir = data_dir != nullptr ? data_dir : "";
  job.checkpoint_dir = flags.checkpoint_dir;
  job.log_dir = flags.log_dir;
  job.fresh = flags.fresh;
  job.finished_ok = flags.finished_ok;
  job.takeover = flags.takeover;
  job.allow_insecure = flags.role.allow_insecure;
  job.task_timeout_s = flags.task_timeout_s;
  job.chief_incarnation = context.incarnation;
  job.log = context.log.get();
  if (flags.role.admin_port >= 0) {
    options.admin_address = fmt::format("127.0.0.1:{}", flags.role.admin_port);
  }
  options.allow_insecure = flags.role.allow_insecure;
  return options;
}

}  // namespace cohort
