#include "deploy/launcher/train_plan.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/model/job_file.h"
#include "common/model/strategies.h"
#include "common/os/identity.h"
#include "deploy/launcher/launcher_options.h"

namespace cohort {
namespace {

absl::Status Usage(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kUsage);
}

absl::StatusOr<const StrategyClass*> ChooseStrategy(const TrainOptions& options) {
  std::string name = options.strategy;
  if (name.empty()) {
    COHORT_ASSIGN_OR_RETURN(const JobFile job, ReadJobFile(options.run.job));
    const bool given = job.lines.keys.contains("strategy.name");
    name = given ? job.spec.strategy().name() : "one_device";
  }
  const StrategyClass* const strategy = FindStrategy(name);
  if (strategy == nullptr) {
    return Usage(InvalidArgument("--strategy: {}", NoStrategyText(name)));
  }
  if (strategy->local) return strategy;
  const bool servers = strategy->name == "parameter_server";
  return Usage(InvalidArgument(
      "strategy {} trains with several processes, and `cohort train` is one: {}, or choose "
      "--strategy one_device, central_storage or mirrored",
      strategy->name,
      servers ? "use `cohort local`, or `cohort run` on each machine"
              : "use `cohort local --strategy multi_worker_mirrored`, or `cohort run` on each "
                "machine"));
}

}  // namespace

void AddTrainFlags(FlagSet* flags, TrainOptions* o) {
  flags->Add("strategy", &o->strategy,
             "one_device, central_storage or mirrored; default: the job file's, or one_device");
  AddDeviceFlags(flags, &o->devices);
  flags->Add("threads", &o->threads,
             "threads of all replicas together; 0: the cores of this machine");
  flags->Add("host_variables", &o->host_variables,
             "keep variables in the host's memory, also if all steps run on GPUs");
  AddRunDirectoryFlags(flags, &o->run);
  flags->Add("evaluator", &o->run.evaluator, "an evaluator too, which evaluates every checkpoint");
  flags->AddPositional("JOB.yaml", &o->run.job, "the job", true);
}

std::string TrainPlan::Text() const {
  return fmt::format("{} on {} ({} thread{}{})", strategy, fmt::join(devices, ", "), threads,
                     threads == 1 ? "" : "s", devices.size() == 1 ? "" : " each");
}

absl::StatusOr<TrainPlan> PlanTraining(const TrainOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const StrategyClass* const strategy, ChooseStrategy(options));
  TrainPlan plan;
  plan.strategy = std::string(strategy->name);
  plan.run = options.run;
  plan.run.in_process = true;
  COHORT_ASSIGN_OR_RETURN(plan.devices, ParseReplicaDevices(options.devices));
  const int replicas = static_cast<int>(plan.devices.size());
  if (strategy->name == "one_device" && replicas > 1) {
    if (!options.devices.devices.empty()) {
      return Usage(InvalidArgument(
          "--devices: strategy one_device has one device, not {}: name one, or choose --strategy "
          "mirrored or central_storage",
          replicas));
    }
    plan.devices.resize(1);
  }
  const int cores = options.threads > 0 ? options.threads : AvailableCores();
  plan.threads = std::max(1, cores / static_cast<int>(plan.devices.size()));
  plan.run.workers = static_cast<int>(plan.devices.size());
  plan.run.ps = strategy->mirrored ? plan.run.workers : 1;
  // Else the strategy keeps the variables in the host's memory.
  const bool has_homes = plan.run.ps == plan.run.workers && !options.host_variables;
  plan.homes = has_homes ? plan.run.workers : 0;
  std::vector<std::string>& flags = plan.run.task_flags;
  flags.push_back("chief=--strategy=" + plan.strategy);
  // A step thread applies its own pushes, with the helpers of the owner. So both have its cores.
  flags.push_back(fmt::format("ps=--threads={}", std::max(1, cores / plan.run.ps)));
  flags.push_back(fmt::format("worker=--threads={}", plan.threads));
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    for (const std::string& flag : DeviceFlags(plan.devices[i], options.devices)) {
      flags.push_back(fmt::format("worker:{}={}", i, flag));
    }
  }
  return plan;
}

}  // namespace cohort
