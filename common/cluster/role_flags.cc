#include "common/cluster/role_flags.h"

#include <utility>

#include "common/base/crash_point.h"
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/cluster/security.h"
#include "common/cluster/socket_directory.h"
#include "common/cluster/tf_config.h"
#include "common/cluster/thread_share.h"
#include "common/os/identity.h"

namespace cohort {
namespace {

absl::Status Usage(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kUsage);
}

absl::Status CheckFlags(const RoleFlags& flags) {
  if (flags.threads > kMostThreads) {
    return Usage(InvalidArgument("--threads: {} is more than {}", flags.threads, kMostThreads));
  }
  if (flags.threads < 0) {
    return Usage(InvalidArgument(
        "--threads: {} is negative; 0 takes this task's share of the cores", flags.threads));
  }
  if (flags.admin_port < -1 || flags.admin_port > 65535) {
    return Usage(InvalidArgument("--admin_port: {} is not between 0 and 65535 (-1: none)",
                                 flags.admin_port));
  }
  if (const std::string why = HostError(flags.admin_bind); !why.empty()) {
    return Usage(InvalidArgument(
        "--admin_bind: {}; use an address of this host, such as 127.0.0.1 or 0.0.0.0", why));
  }
  if (!LogLevelFromName(flags.log_level).has_value()) {
    return Usage(
        InvalidArgument("--log_level: \"{}\" is not info, warning or error", flags.log_level));
  }
  if (flags.unix_socket_dir.size() > kLongestSocketDirectory) {
    return Usage(InvalidArgument(
        "--unix_socket_dir: {} has {} characters; the path of a socket directory may have at most "
        "{}",
        flags.unix_socket_dir, flags.unix_socket_dir.size(), kLongestSocketDirectory));
  }
  if (!flags.crash_point.empty()) {
    return Usage(Annotate(ArmCrashPoint(flags.crash_point), "--crash_point"));
  }
  return absl::OkStatus();
}

absl::Status FindAddresses(const RoleFlags& flags, RoleContext* context) {
  context->advertised = context->cluster.Find(context->task);
  if (!context->advertised.has_value()) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(context->bind, BindAddress(flags.bind, *context->advertised));
  if (context->task.role == Role::kWorker || context->task.role == Role::kPs) {
    const absl::Status refused = context->security->CheckBind(*context->bind);
    const std::string why = refused.ok() ? "" : HostError(context->advertised->host);
    return why.empty() ? refused : Annotate(refused, fmt::format("TF_CONFIG: {}", why));
  }
  return absl::OkStatus();
}

// A cluster without servers is one of replicas.
absl::Status MakeSecurity(const RoleFlags& flags, RoleContext* context) {
  const bool replicas = context->cluster.count(Role::kPs) == 0;
  COHORT_ASSIGN_OR_RETURN(
      context->security,
      Security::Create({.allow_insecure = flags.allow_insecure,
                        .tls_dir = Security::DirectoryOf(context->task, flags.tls_dir, replicas),
                        .secret_file = flags.secret_file,
                        .replicas = replicas}));
  if (!context->security->has_certificates()) return absl::OkStatus();
  return context->security->CheckOwnTask(context->task);
}

}  // namespace

void AddRoleFlags(FlagSet* flags, RoleFlags* out) {
  flags->Add("bind", &out->bind,
             "HOST:PORT to listen on, if it differs from the address in TF_CONFIG (containers)");
  flags->Add("threads", &out->threads,
             "worker threads; 0: this task's share of the cores of this host");
  flags->Add("admin_port", &out->admin_port,
             "port of health and metrics; 0: any free one, -1: none");
  flags->Add("admin_bind", &out->admin_bind,
             "address of this host for the admin port: plaintext that can be read, not changed");
  flags->Add("allow_insecure", &out->allow_insecure,
             "serve and dial plaintext beyond loopback; only for a trusted network");
  flags->Add(
      "tls_dir", &out->tls_dir,
      "directory with tls.crt, tls.key and ca.crt: TCP is mutual TLS (docs/cluster.md, TLS)");
  flags->Add("secret_file", &out->secret_file,
             "file with the secret of this run, which each stream must carry; mode 0600");
  flags->Add("log_file", &out->log_file, "file to which the log is also appended");
  flags->Add("log_level", &out->log_level, "info, warning or error");
  flags->Add("crash_point", &out->crash_point,
             "for tests: NAME[:NTH], the place where the process kills itself; NAME:NTH:hold: "
             "hangs there");
  flags->Add("unix_socket_dir", &out->unix_socket_dir,
             "ps: directory of the unix sockets of this host; default: the user's own, in "
             "$XDG_RUNTIME_DIR or /tmp. ps, worker: none: TCP only");
  flags->Add("plugin", &out->plugins,
             "shared library with classes of your own (docs/plugins.md); repeatable");
  AddPlannedRoleFlags(flags);
}

void AddServedFlags(FlagSet* flags, ServedFlags* out) {
  AddRoleFlags(flags, &out->role);
  flags->AddSeconds("chief_timeout_s", &out->chief_timeout_s,
                    "seconds for which a chief that was lost silently keeps other chiefs away");
  flags->AddSeconds("chief_wait_s", &out->chief_wait_s,
                    "seconds without a chief after which this task ends; 0: it waits forever");
  flags->AddSeconds("stall_timeout_s", &out->stall_timeout_s,
                    "seconds that a thread may stand still before this task ends with 169; 0: no "
                    "limit");
  flags->AddSeconds(
      "drain_timeout_s", &out->drain_timeout_s,
      "seconds that the current step or running snapshots may take after SIGTERM, and the "
      "leave of a replica of an elastic job");
}

std::string AdminAddress(const RoleFlags& flags) {
  if (flags.admin_port < 0) return "";
  return Address{flags.admin_bind, flags.admin_port}.ToString();
}

void AddPlannedRoleFlags(FlagSet* flags) {
  for (const char* name : {"--device", "--cuda", "--gpu"}) flags->AddPlanned(name, "CUDA is");
  flags->AddPlanned("--replica", "replicas of parameter servers are");
  flags->AddPlanned("--trace", "a trace of a step is");
}

absl::StatusOr<RoleContext> MakeRoleContext(const RoleFlags& flags, Role role,
                                            const char* tf_config) {
  COHORT_RETURN_IF_ERROR(CheckFlags(flags));
  RoleContext context;
  TfConfig config;
  // An evaluator may run beside no cluster at all.
  if (tf_config != nullptr || role != Role::kEvaluator) {
    COHORT_ASSIGN_OR_RETURN(config, ParseTfConfig(tf_config == nullptr ? "" : tf_config));
  }
  COHORT_ASSIGN_OR_RETURN(context.task, TaskOfRole(config, role));
  context.cluster = std::move(config.cluster);
  COHORT_RETURN_IF_ERROR(MakeSecurity(flags, &context));
  COHORT_RETURN_IF_ERROR(FindAddresses(flags, &context));
  context.threads = flags.threads > 0
                        ? flags.threads
                        : ThreadShare(context.cluster, context.task, AvailableCores());
  context.host_id = HostId();
  context.plugins = flags.plugins;
  context.incarnation = RandomIncarnation();
  LogOptions log;
  log.level = *LogLevelFromName(flags.log_level);
  log.role = std::string(RoleName(role));
  log.index = context.task.index;
  log.to_stderr = flags.log_to_stderr;
  log.file = flags.log_file;
  COHORT_ASSIGN_OR_RETURN(context.log, Logger::Create(log));
  context.security->LogTo(context.log.get());
  return context;
}

}  // namespace cohort
