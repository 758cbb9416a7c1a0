#include "deploy/launcher/evaluate_checkpoint.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/checkpoint/find_checkpoint.h"
#include "common/os/child_process.h"
#include "common/os/signals.h"

namespace cohort {

absl::StatusOr<int> EvaluateCheckpoint(const EvaluateOptions& options) {
  COHORT_RETURN_IF_ERROR(CheckBetween("--threads", options.threads, 0, kMostThreads));
  std::string refused;
  const auto checkpoint = FindCheckpoint(options.checkpoint, &refused);
  std::fputs(Printable(refused).c_str(), stderr);
  COHORT_RETURN_IF_ERROR(checkpoint.status());
  std::vector<std::string> argv = {options.bin_dir + "/cohort-evaluator",
                                   "--checkpoint_dir=" + *checkpoint, "--once"};
  if (!options.log_dir.empty()) argv.push_back("--log_dir=" + options.log_dir);
  if (options.threads > 0) argv.push_back(fmt::format("--threads={}", options.threads));
  for (const std::string& plugin : options.plugins) argv.push_back("--plugin=" + plugin);
  ResetSigchld();
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child,
                          ChildProcess::Start({.argv = argv, .death_signal = SIGTERM}));
  // The child gets Ctrl-C directly, and its exit code counts.
  std::signal(SIGINT, SIG_IGN);
  return ExitCodeOfWait(child->Wait());
}

}  // namespace cohort
