#include "deploy/launcher/run_task.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/cluster/tf_config.h"

namespace cohort {
namespace {

constexpr unsigned Bit(Role role) { return 1u << static_cast<int>(role); }
constexpr unsigned kChief = Bit(Role::kChief);
constexpr unsigned kWorker = Bit(Role::kWorker);
constexpr unsigned kPs = Bit(Role::kPs);
constexpr unsigned kEvaluator = Bit(Role::kEvaluator);
constexpr unsigned kAll = kChief | kWorker | kPs | kEvaluator;

struct ForwardedFlag {
  const char* name;
  bool is_switch;  // takes no value
  unsigned roles;  // roles that know it
  const char* help;
};

constexpr ForwardedFlag kForwarded[] = {
    {"bind", false, kAll, "HOST:PORT to listen on; default: the address in TF_CONFIG"},
    {"threads", false, kAll, "threads that work; default: this task's share of the cores"},
    {"admin_port", false, kAll, "port of health and metrics, on loopback"},
    {"allow_insecure", true, kAll, "serve and dial plaintext beyond loopback"},
    {"log_file", false, kAll, "file that gets the log too"},
    {"log_level", false, kAll, "info, warning or error"},
    {"crash_point", false, kAll,
     "for tests: NAME[:NTH], the place at which the process kills itself"},
    {"unix_socket_dir", false, kAll,
     "ps: directory where tasks of one host meet over unix sockets; ps, worker: none: TCP only"},
    {"checkpoint_dir", false, kChief | kEvaluator, "chief, evaluator: directory of checkpoints"},
    {"log_dir", false, kChief | kEvaluator, "chief, evaluator: directory of metrics"},
    {"fresh", true, kChief,
     "chief: delete the checkpoints of earlier runs and start from the beginning"},
    {"takeover", true, kChief, "chief: take the cluster from another chief"},
    {"finished_ok", true, kChief, "chief: exit with 0 if the job is finished already"},
    {"task_timeout_s", false, kChief, "chief: seconds to wait for a task"},
    {"apply_log", false, kPs, "ps: file that gets one line per push section"},
    {"chief_timeout_s", false, kPs | kWorker,
     "ps, worker: seconds without a sign of the chief before another may take over"},
    {"chief_wait_s", false, kPs | kWorker, "ps, worker: seconds without a chief, then end"},
    {"data_dir", false, kWorker | kEvaluator,
     "worker, evaluator: where relative paths of datasets start"},
    {"devices", false, kWorker, "worker: devices that compute; default: all GPUs, else the CPU"},
    {"gpu_memory_limit_mb", false, kWorker, "worker: MiB that each device may allocate"},
    {"gpu_allow_growth", false, kWorker, "worker: false: reserve the limit at the start"},
    {"virtual_gpus", false, kWorker, "worker: devices per GPU"},
    {"gpu_tensor_float", true, kWorker, "worker: let float32 products use TF32"},
    {"ps_timeout_s", false, kWorker, "worker: seconds to wait for a ps"},
    {"drain_timeout_s", false, kPs | kWorker,
     "ps, worker: seconds to finish current work after SIGTERM"},
    {"once", true, kEvaluator, "evaluator: the newest checkpoint, then end"},
    {"max_evaluations", false, kEvaluator, "evaluator: end after this many evaluations"},
    {"latest_only", true, kEvaluator, "evaluator: skip all but the newest checkpoint"},
    {"poll_s", false, kEvaluator, "evaluator: seconds between looks at the directory"},
    {"wait_s", false, kEvaluator, "evaluator: seconds without a new checkpoint, then end"},
};

}  // namespace

struct RunFlags::Values {
  std::list<std::string> texts;  // a list, because the addresses must stay
  std::list<bool> switches;
  std::vector<std::string> plugins;
  std::string job;
};

RunFlags::RunFlags(FlagSet* flags) : flags_(flags), values_(std::make_unique<Values>()) {
  flags->AddPositional("JOB.yaml", &values_->job, "the job; only the chief reads it", false);
  flags->Add("plugin", &values_->plugins,
             "shared library with classes of your own (docs/plugins.md); repeatable");
  for (const ForwardedFlag& flag : kForwarded) {
    if (flag.is_switch) {
      flags->Add(flag.name, &values_->switches.emplace_back(false), flag.help);
    } else {
      flags->Add(flag.name, &values_->texts.emplace_back(), flag.help);
    }
  }
}

RunFlags::~RunFlags() = default;

absl::StatusOr<std::vector<std::string>> RunFlags::DaemonArguments(
    const char* tf_config, const std::string& bin_dir) const {
  COHORT_ASSIGN_OR_RETURN(const TfConfig config,
                          ParseTfConfig(tf_config == nullptr ? "" : tf_config));
  if (!config.task.has_value() && values_->job.empty()) {
    return WithExitCode(
        InvalidArgument("TF_CONFIG: task: is missing, so that it is unclear which daemon to start"),
        ExitCode::kConfig);
  }
  const Role role = config.task.has_value() ? config.task->role : Role::kChief;
  if (role == Role::kChief && values_->job.empty()) {
    return WithExitCode(InvalidArgument("this task is the chief: it needs JOB.yaml"),
                        ExitCode::kUsage);
  }
  std::vector<std::string> argv = {fmt::format("{}/cohort-{}", bin_dir, RoleName(role))};
  auto text = values_->texts.begin();
  auto on = values_->switches.begin();
  for (const ForwardedFlag& flag : kForwarded) {
    const std::string value = flag.is_switch ? (*on++ ? "true" : "false") : *text++;
    if ((flag.roles & Bit(role)) == 0 || !flags_->Given(flag.name)) continue;
    argv.push_back(fmt::format("--{}={}", flag.name, value));
  }
  for (const std::string& plugin : values_->plugins) argv.push_back("--plugin=" + plugin);
  if (role == Role::kChief) argv.push_back(values_->job);
  return argv;
}

int Exec(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  return ExitWith("cohort",
                  WithExitCode(NotFound("{} cannot be executed: {}", argv[0], std::strerror(errno)),
                               ExitCode::kOs));
}

}  // namespace cohort
