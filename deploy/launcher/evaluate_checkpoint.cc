#include "deploy/launcher/evaluate_checkpoint.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "deploy/launcher/child.h"
#include "deploy/launcher/inspect_checkpoint.h"
#include "deploy/launcher/run_task.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// A checkpoint directory that holds nothing but a link to one checkpoint, so that the evaluator
// sees that one; gone with the object.
class OneCheckpoint {
 public:
  static absl::StatusOr<std::unique_ptr<OneCheckpoint>> Make(const std::string& checkpoint) {
    std::string path = (fs::temp_directory_path() / "cohort-evaluate.XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return WithExitCode(
          FailedPrecondition("the directory {} cannot be made: {}", path, std::strerror(errno)),
          ExitCode::kCantCreate);
    }
    std::unique_ptr<OneCheckpoint> one(new OneCheckpoint(path));
    std::error_code error;
    fs::create_directory_symlink(checkpoint, fs::path(path) / fs::path(checkpoint).filename(),
                                 error);
    if (!error) return one;
    return WithExitCode(
        FailedPrecondition("{}: no link to {}: {}", path, checkpoint, error.message()),
        ExitCode::kCantCreate);
  }
  ~OneCheckpoint() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);  // removes links, not what they point to
  }
  const std::string& path() const { return path_; }

 private:
  explicit OneCheckpoint(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

// Runs a program on this terminal and waits for it. Signals of the terminal reach it directly.
int RunAndWait(const std::vector<std::string>& argv) {
  std::signal(SIGINT, SIG_IGN);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    std::signal(SIGINT, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    _exit(getppid() == parent ? Exec(argv) : 1);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) {
    return ExitWith("cohort",
                    ResourceExhausted("no process for {}: {}", argv[0], std::strerror(errno)));
  }
  return ExitCodeOfWait(status);
}

}  // namespace

int EvaluateCheckpoint(const EvaluateOptions& options) {
  std::string refused;
  const auto checkpoint = FindCheckpoint(options.checkpoint, &refused);
  std::fputs(refused.c_str(), stderr);
  if (!checkpoint.ok()) return ExitWith("cohort", checkpoint.status());
  const auto one = OneCheckpoint::Make(*checkpoint);
  if (!one.ok()) return ExitWith("cohort", one.status());
  std::vector<std::string> argv = {options.bin_dir + "/cohort-evaluator",
                                   "--checkpoint_dir=" + (*one)->path(), "--once"};
  if (!options.log_dir.empty()) argv.push_back("--log_dir=" + options.log_dir);
  if (options.threads > 0) argv.push_back(fmt::format("--threads={}", options.threads));
  return RunAndWait(argv);
}

}  // namespace cohort
