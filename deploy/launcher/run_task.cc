#include "deploy/launcher/run_task.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/cluster/replica_cluster.h"
#include "common/cluster/tf_config.h"
#include "common/model/strategies.h"

namespace cohort {
namespace {

constexpr unsigned Bit(Role role) { return 1u << static_cast<int>(role); }
constexpr unsigned kChief = Bit(Role::kChief);
constexpr unsigned kWorker = Bit(Role::kWorker);
constexpr unsigned kPs = Bit(Role::kPs);
constexpr unsigned kEvaluator = Bit(Role::kEvaluator);
// A replica knows the flags of a worker, and some of a ps.
constexpr unsigned kReplica = 1u << kNumRoles;
// The chief beside the first replica. The flags of a task that both know are the replica's.
constexpr unsigned kFirstReplicasChief = kReplica << 1;
constexpr unsigned kTrainer = kWorker | kReplica;
constexpr unsigned kServing = kChief | kWorker | kPs | kEvaluator | kReplica;
constexpr unsigned kAll = kServing | kFirstReplicasChief;
constexpr unsigned kAnyChief = kChief | kFirstReplicasChief;

struct ForwardedFlag {
  const char* name;
  bool is_switch;  // takes no value
  unsigned roles;  // roles that know it
  const char* help;
};

constexpr ForwardedFlag kForwarded[] = {
    {"bind", false, kServing, "HOST:PORT to listen on; default: the address in TF_CONFIG"},
    {"threads", false, kServing, "threads that work; default: this task's share of the cores"},
    {"admin_port", false, kServing, "port of health and metrics; 0: any free one, -1: none"},
    {"admin_bind", false, kAll, "address of this host for the admin port"},
    {"allow_insecure", true, kAll, "serve and dial plaintext beyond loopback"},
    {"tls_dir", false, kAll, "directory with tls.crt, tls.key and ca.crt: TCP is mutual TLS"},
    {"secret_file", false, kAll, "file with the secret of this run, which each stream must carry"},
    {"log_file", false, kAll, "file that gets the log too"},
    {"log_level", false, kAll, "info, warning or error"},
    {"crash_point", false, kServing,
     "for tests: NAME[:NTH], the place at which the process kills itself"},
    {"unix_socket_dir", false, kServing,
     "ps: directory where tasks of one host meet over unix sockets; ps, worker: none: TCP only"},
    {"checkpoint_dir", false, kAnyChief | kEvaluator, "chief, evaluator: directory of checkpoints"},
    {"log_dir", false, kAnyChief | kEvaluator, "chief, evaluator: directory of metrics"},
    {"takeover", true, kAnyChief, "chief: take the cluster from another chief"},
    {"standby", true, kAnyChief, "chief: wait for the end of another chief, then continue its job"},
    {"join_bind", false, kAnyChief,
     "chief: HOST:PORT at which workers join while the job runs; default: none may"},
    {"join", false, kWorker,
     "worker: HOST:PORT of the chief of a running job to join, instead of TF_CONFIG"},
    {"launch", false, kAnyChief | kEvaluator,
     "chief, evaluator: a name of this launch, whose checkpoints the evaluator reads"},
    {"finished_ok", true, kAnyChief, "chief: exit with 0 if the job is finished already"},
    {"task_timeout_s", false, kAnyChief, "chief: seconds to wait for a task"},
    {"apply_log", false, kPs | kReplica, "ps: file that gets one line per push section"},
    {"copy_bytes_per_second", false, kPs, "ps: bytes per second that fill new copies; 0: no limit"},
    {"chief_timeout_s", false, kPs | kTrainer,
     "ps, worker: seconds without a sign of the chief before another may take over"},
    {"chief_wait_s", false, kPs | kTrainer, "ps, worker: seconds without a chief, then end"},
    {"data_dir", false, kTrainer | kEvaluator,
     "worker, evaluator: where relative paths of datasets start"},
    {"devices", false, kTrainer, "worker: devices that compute; default: all GPUs, else the CPU"},
    {"gpu_memory_limit_mb", false, kTrainer, "worker: MiB that each device may allocate"},
    {"gpu_allow_growth", false, kTrainer, "worker: false: reserve the limit at the start"},
    {"virtual_gpus", false, kTrainer, "worker: devices per GPU"},
    {"gpu_tensor_float", true, kTrainer, "worker: let float32 products use TF32"},
    {"ps_timeout_s", false, kTrainer, "worker: seconds to wait for a ps"},
    {"peer_timeout_s", false, kTrainer, "worker: seconds to wait for a worker that runs a layer"},
    {"stall_timeout_s", false, kPs | kTrainer,
     "ps, worker: seconds that a thread may stand still, then end"},
    {"drain_timeout_s", false, kPs | kTrainer,
     "ps, worker: seconds to finish current work after SIGTERM"},
    {"once", true, kEvaluator, "evaluator: the newest checkpoint, then end"},
    {"max_evaluations", false, kEvaluator, "evaluator: end after this many evaluations"},
    {"latest_only", true, kEvaluator, "evaluator: skip all but the newest checkpoint"},
    {"poll_s", false, kEvaluator, "evaluator: seconds between looks at the directory"},
    {"start_delay_s", false, kEvaluator, "evaluator: seconds before the first evaluation"},
    {"throttle_s", false, kEvaluator, "evaluator: seconds from one evaluation to the next"},
    {"exporters", false, kEvaluator, "evaluator: a list of latest, best, final"},
    {"exports_to_keep", false, kEvaluator, "evaluator: exports of latest and best that are kept"},
    {"wait_s", false, kEvaluator, "evaluator: seconds without a new checkpoint, then end"},
};

std::string_view ReplicaStrategy() { return DefaultStrategy(OwnerCalls::kReplicas).name; }

}  // namespace

struct RunFlags::Values {
  std::list<std::string> texts;  // a list, because the addresses must stay
  std::list<bool> switches;
  std::vector<std::string> plugins;
  std::string job;
  std::string strategy;
  std::string chief_admin_port;
  bool fresh = false;
};

RunFlags::RunFlags(FlagSet* flags) : flags_(flags), values_(std::make_unique<Values>()) {
  flags->AddPositional("JOB.yaml", &values_->job, "the job; only the chief reads it", false);
  flags->Add("plugin", &values_->plugins,
             "shared library with classes of your own (docs/plugins.md); repeatable");
  flags->Add("strategy", &values_->strategy,
             NamesOfStrategies(/*local=*/false) +
                 "; default: workers are replicas if TF_CONFIG has no ps");
  flags->Add("fresh", &values_->fresh,
             "chief: delete the checkpoints of earlier runs and start from the beginning");
  flags->Add("chief_admin_port", &values_->chief_admin_port,
             "first replica: port of health and metrics of its chief");
  for (const ForwardedFlag& flag : kForwarded) {
    if (flag.is_switch) {
      flags->Add(flag.name, &values_->switches.emplace_back(false), flag.help);
    } else {
      flags->Add(flag.name, &values_->texts.emplace_back(), flag.help);
    }
  }
}

RunFlags::~RunFlags() = default;

const std::string& RunFlags::job() const { return values_->job; }
std::string* RunFlags::strategy() { return &values_->strategy; }
const std::vector<std::string>& RunFlags::plugins() const { return values_->plugins; }

TaskCommand RunFlags::Command(const ClusterSpec& cluster, Task task, std::string_view program,
                              unsigned who, const std::string& bin_dir) const {
  TaskCommand command;
  command.task = task.ToString();
  command.argv = {fmt::format("{}/cohort-{}", bin_dir, program)};
  command.environment = {{"TF_CONFIG", MakeTfConfig(cluster, task)}};
  auto text = values_->texts.begin();
  auto on = values_->switches.begin();
  for (const ForwardedFlag& flag : kForwarded) {
    const std::string value = flag.is_switch ? (*on++ ? "true" : "false") : *text++;
    if ((flag.roles & who) == 0 || !flags_->Given(flag.name)) continue;
    command.argv.push_back(fmt::format("--{}={}", flag.name, value));
  }
  for (const std::string& plugin : values_->plugins) command.argv.push_back("--plugin=" + plugin);
  if (task.role == Role::kChief) command.argv.push_back(values_->job);
  return command;
}

bool RunFlags::AreReplicas(const TfConfig& config) const {
  if (!values_->strategy.empty()) {
    const StrategyClass* const strategy = FindStrategy(values_->strategy);
    return strategy != nullptr && strategy->calls == OwnerCalls::kReplicas;
  }
  return config.task.has_value() && config.cluster.count(Role::kPs) == 0 &&
         ReplicaOf(config.cluster, *config.task).has_value();
}

bool RunFlags::GuessesReplicas(const char* tf_config) const {
  const auto config = ParseTfConfig(tf_config == nullptr ? "" : tf_config);
  return values_->strategy.empty() && config.ok() && AreReplicas(*config);
}

absl::StatusOr<std::vector<TaskCommand>> RunFlags::ReplicaCommands(
    const TfConfig& config, const std::string& bin_dir) const {
  const ClusterSpec replicas = ReplicasOf(config.cluster);
  const std::optional<int> number = ReplicaOf(config.cluster, *config.task);
  if (!number.has_value()) {
    return WithExitCode(
        InvalidArgument(
            "TF_CONFIG: task {}: strategy {} trains on workers, and on a chief that has "
            "an address",
            config.task->ToString(), ReplicaStrategy()),
        ExitCode::kConfig);
  }
  std::vector<TaskCommand> commands = {
      Command(replicas, {Role::kWorker, *number}, "replica", kReplica, bin_dir)};
  if (*number != 0) return commands;
  if (values_->job.empty()) {
    return UsageError("this task runs the chief: it needs JOB.yaml");
  }
  TaskCommand chief = Command(replicas, {Role::kChief, 0}, "chief", kFirstReplicasChief, bin_dir);
  chief.argv.insert(chief.argv.end() - 1, fmt::format("--strategy={}", ReplicaStrategy()));
  if (!values_->chief_admin_port.empty()) {
    chief.argv.insert(chief.argv.end() - 1, "--admin_port=" + values_->chief_admin_port);
  }
  chief.show_stdout = true;
  // A restarted chief keeps what this run has trained.
  if (values_->fresh) chief.first_start = {"--fresh"};
  chief.later_starts = {"--finished_ok"};
  commands.push_back(std::move(chief));
  return commands;
}

absl::StatusOr<std::vector<TaskCommand>> RunFlags::Commands(const char* tf_config,
                                                            const std::string& bin_dir) const {
  if (flags_->Given("join")) {
    // The worker asks for its TF_CONFIG.
    TaskCommand worker = Command({}, {Role::kWorker, 0}, "worker", kWorker, bin_dir);
    worker.environment.clear();
    return std::vector<TaskCommand>{std::move(worker)};
  }
  COHORT_ASSIGN_OR_RETURN(const TfConfig config,
                          ParseTfConfig(tf_config == nullptr ? "" : tf_config));
  if (!config.task.has_value() && values_->job.empty()) {
    return WithExitCode(
        InvalidArgument("TF_CONFIG: task: is missing, so that it is unclear which daemon to start"),
        ExitCode::kConfig);
  }
  const Task task = config.task.value_or(Task{Role::kChief, 0});
  if (task.role != Role::kEvaluator && config.task.has_value() && AreReplicas(config)) {
    return ReplicaCommands(config, bin_dir);
  }
  if (task.role == Role::kChief && values_->job.empty()) {
    return UsageError("this task is the chief: it needs JOB.yaml");
  }
  TaskCommand command = Command(config.cluster, task, RoleName(task.role), Bit(task.role), bin_dir);
  command.environment.clear();  // TF_CONFIG stays as it is
  if (task.role == Role::kChief && values_->fresh) {
    command.argv.insert(command.argv.end() - 1, "--fresh=true");
  }
  return std::vector<TaskCommand>{std::move(command)};
}

absl::Status Exec(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  return CannotExecute(argv[0], errno);
}

}  // namespace cohort
