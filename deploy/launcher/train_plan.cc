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
    if (!job.lines.keys.contains("strategy.name")) return &DefaultStrategy(OwnerCalls::kDirect);
    name = job.spec.strategy().name();
  }
  const StrategyClass* const strategy = FindStrategy(name);
  if (strategy == nullptr) {
    return Usage(InvalidArgument("--strategy: {}", NoStrategyText(name)));
  }
  if (strategy->local()) return strategy;
  const bool is_default = strategy == &DefaultStrategy(OwnerCalls::kSockets);
  return Usage(InvalidArgument(
      "strategy {} trains with several processes, and `cohort train` is one: use `cohort local{}`, "
      "or `cohort run` on each machine, or choose --strategy {}",
      strategy->name, is_default ? "" : fmt::format(" --strategy {}", strategy->name),
      NamesOfStrategies(/*local=*/true)));
}

}  // namespace

void AddTrainFlags(FlagSet* flags, TrainOptions* o) {
  flags->Add("strategy", &o->strategy,
             fmt::format("{}; default: the job file's, or {}", NamesOfStrategies(/*local=*/true),
                         DefaultStrategy(OwnerCalls::kDirect).name));
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
  return fmt::format("{} on {} ({} thread{}{})", strategy, fmt::join(tasks.devices, ", "), threads,
                     threads == 1 ? "" : "s", tasks.workers == 1 ? "" : " each");
}

absl::StatusOr<TrainPlan> PlanTraining(const TrainOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const StrategyClass* const strategy, ChooseStrategy(options));
  TrainPlan plan;
  plan.strategy = std::string(strategy->name);
  COHORT_ASSIGN_OR_RETURN(plan.tasks, PlanTasks(*strategy, options.devices, {}));
  plan.run = options.run;
  plan.run.in_process = true;
  const int cores = options.threads > 0 ? options.threads : AvailableCores();
  plan.threads = std::max(1, cores / plan.tasks.workers);
  // Else the strategy keeps the variables in the host's memory.
  const bool has_homes = plan.tasks.owners == plan.tasks.workers && !options.host_variables;
  plan.homes = has_homes ? plan.tasks.workers : 0;
  std::vector<std::string>& flags = plan.run.task_flags;
  flags.push_back("chief=--strategy=" + plan.strategy);
  // A step thread applies its own pushes, with the helpers of the owner. So both have its cores.
  flags.push_back(fmt::format("ps=--threads={}", std::max(1, cores / plan.tasks.owners)));
  flags.push_back(fmt::format("worker=--threads={}", plan.threads));
  for (size_t i = 0; i < plan.tasks.devices.size(); ++i) {
    for (const std::string& flag : DeviceFlags(plan.tasks.devices[i], options.devices)) {
      flags.push_back(fmt::format("worker:{}={}", i, flag));
    }
  }
  return plan;
}

}  // namespace cohort
