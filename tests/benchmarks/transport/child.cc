#include "tests/benchmarks/transport/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {

Child::Child(const std::vector<std::string>& arguments)
    : name_(fmt::format("{}", fmt::join(arguments, " "))) {
  std::vector<char*> argv = {const_cast<char*>("transport_bench")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) Die("no pipe");
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  in_ = fdopen(in[1], "w");
  out_ = fdopen(out[0], "r");
}

Child::~Child() {
  fclose(in_);
  fclose(out_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Child::Say(const std::string& line) {
  fmt::print(in_, "{}\n", line);
  std::fflush(in_);
}

std::string Child::Hear() {
  std::string line;
  for (int c = 0; (c = std::fgetc(out_)) != '\n'; line.push_back(static_cast<char>(c))) {
    if (c == EOF) Die("a process has ended: " + name_);
  }
  return line;
}

double Child::CpuSeconds() const {
  clockid_t clock;
  timespec now = {};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &now) != 0) {
    Die("a process is gone: " + name_);
  }
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace cohort::bench
