#include "chief/chief_options.h"

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "common/cluster/replica_cluster.h"
#include "common/model/strategies.h"

namespace cohort {

void AddChiefFlags(FlagSet* flags, ChiefFlags* out) {
  AddRoleFlags(flags, &out->role);
  flags->AddPositional("JOB.yaml", &out->job, "what to train", true);
  flags->Add(
      "checkpoint_dir", &out->checkpoint_dir,
      "directory of checkpoints and the journal, seen by the chief and every ps; default: the "
      "job file's");
  flags->Add("strategy", &out->strategy,
             "the strategy that the tasks of this cluster are for; default: parameter_server");
  flags->Add("log_dir", &out->log_dir, "directory of metrics.jsonl and TensorBoard's files");
  flags->Add("fresh", &out->fresh,
             "delete the checkpoints of earlier runs and start from the beginning");
  flags->Add(
      "finished_ok", &out->finished_ok,
      "exit with 0 if the job is already finished, instead of with an error (for a supervisor "
      "that restarts the chief)");
  flags->Add("launch", &out->launch,
             "a name of this launch; an evaluator with the same one reads only its checkpoints");
  flags->Add(
      "takeover", &out->takeover,
      "take over the tasks and the checkpoint directory from another chief, which is dead or "
      "must end");
  flags->Add(
      "standby", &out->standby,
      "wait until no other chief has the checkpoint directory, or its chief has been silent for "
      "4 s, then continue its job; exit with 0 if the job is finished");
  flags->Add(
      "join_bind", &out->join_bind,
      "HOST:PORT at which workers join while the job runs (cohort run --join); default: none "
      "may");
  flags->AddSeconds(
      "task_timeout_s", &out->task_timeout_s,
      "seconds to wait for a task at the start, or for a lost one; 0: the job file's");
}

namespace {

// A cluster that was started as parameter servers and workers trains by that strategy.
absl::Status CheckStrategy(const ChiefFlags& flags, const JobFile& job) {
  const StrategyClass* const strategy = FindStrategy(job.spec.strategy().name());
  if (!flags.strategy.empty() || strategy->calls == OwnerCalls::kSockets) return absl::OkStatus();
  return WithExitCode(
      InvalidArgument("{}: strategy {} has no chief with parameter servers: start the job with "
                      "`{} {}`, or choose strategy {}",
                      job.lines.Where("strategy.name"), strategy->name,
                      strategy->local() ? "cohort train" : "cohort run", flags.job,
                      DefaultStrategy(OwnerCalls::kSockets).name),
      ExitCode::kConfig);
}

// Each replica owns its rows of the large variables, so that none receives most of the gradients. A
// partitioner of the job file stays.
void SpreadOverReplicas(const ClusterSpec& cluster, v1::StrategySpec* strategy) {
  constexpr uint64_t kLeastBytes = 64 << 10;
  if (!strategy->partitioner().class_name().empty()) return;
  v1::PartitionerSpec* const partitioner = strategy->mutable_partitioner();
  partitioner->set_class_name("MinSize");
  partitioner->set_min_shard_bytes(kLeastBytes);
  partitioner->set_max_shards(static_cast<uint64_t>(cluster.count(Role::kPs)));
}

}  // namespace

absl::StatusOr<Chief::Options> MakeChiefOptions(const ChiefFlags& flags, const RoleContext& context,
                                                const char* data_dir) {
  Chief::Options options;
  JobRunnerOptions& job = options.job;
  if (flags.standby && (flags.fresh || flags.takeover)) {
    return UsageError(
        "--standby excludes --fresh and --takeover: a standby chief continues what another one has "
        "begun");
  }
  COHORT_ASSIGN_OR_RETURN(job.job, ReadJobFile(flags.job, flags.strategy));
  COHORT_RETURN_IF_ERROR(CheckStrategy(flags, job.job));
  const StrategyClass* const strategy = FindStrategy(job.job.spec.strategy().name());
  const bool replicas = strategy->calls == OwnerCalls::kReplicas;
  if (!flags.join_bind.empty()) {
    if (replicas) {
      return UsageError(
          "--join_bind: the replicas of strategy {} are those of TF_CONFIG; with `elastic: true` "
          "they may leave and come back",
          strategy->name);
    }
    if (const absl::Status bad = ParseAddress(flags.join_bind).status(); !bad.ok()) {
      return WithExitCode(Annotate(bad, "--join_bind"), ExitCode::kUsage);
    }
    job.join_bind = flags.join_bind;
  }
  job.cluster = replicas ? WithOwners(ReplicasOf(context.cluster)) : context.cluster;
  if (strategy->replicas_own) SpreadOverReplicas(job.cluster, job.job.spec.mutable_strategy());
  job.data.data_dir = data_dir != nullptr ? data_dir : "";
  job.data.threads = context.threads;
  job.data.log = context.log.get();
  job.checkpoint_dir = flags.checkpoint_dir;
  job.log_dir = flags.log_dir;
  job.fresh = flags.fresh;
  job.finished_ok = flags.finished_ok || flags.standby;
  job.standby = flags.standby;
  job.launch = flags.launch;
  job.takeover = flags.takeover;
  job.security = context.security;
  job.task_timeout_s = flags.task_timeout_s;
  job.chief_incarnation = context.incarnation;
  job.log = context.log.get();
  options.admin_address = AdminAddress(flags.role);
  return options;
}

}  // namespace cohort
