#include "deploy/launcher/evaluate_checkpoint.h"

#include <csignal>
#include <cstdio>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/os/child_process.h"
#include "common/os/signals.h"
#include "deploy/launcher/inspect_checkpoint.h"

namespace cohort {
namespace {

// Runs a program on this terminal and waits for it.
int RunAndWait(const std::vector<std::string>& argv) {
  ResetSigchld();
  auto child = ChildProcess::Start({.argv = argv, .death_signal = SIGTERM});
  if (!child.ok()) return ExitWith("cohort", child.status());
  // The child gets Ctrl-C directly, and its exit code counts.
  std::signal(SIGINT, SIG_IGN);
  return ExitCodeOfWait((*child)->Wait());
}

}  // namespace

int EvaluateCheckpoint(const EvaluateOptions& options) {
  const absl::Status threads = CheckBetween("--threads", options.threads, 0, kMostThreads);
  if (!threads.ok()) return ExitWith("cohort", threads);
  std::string refused;
  const auto checkpoint = FindCheckpoint(options.checkpoint, &refused);
  std::fputs(Printable(refused).c_str(), stderr);
  if (!checkpoint.ok()) return ExitWith("cohort", checkpoint.status());
  std::vector<std::string> argv = {options.bin_dir + "/cohort-evaluator",
                                   "--checkpoint_dir=" + *checkpoint, "--once"};
  if (!options.log_dir.empty()) argv.push_back("--log_dir=" + options.log_dir);
  if (options.threads > 0) argv.push_back(fmt::format("--threads={}", options.threads));
  for (const std::string& plugin : options.plugins) argv.push_back("--plugin=" + plugin);
  return RunAndWait(argv);
}

}  // namespace cohort
