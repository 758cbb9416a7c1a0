#include "tests/benchmarks/transport/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {
namespace {

double Seconds(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Child::Child(const std::string& address, const std::vector<std::string>& arguments)
    : address_(address) {
  std::vector<char*> argv = {const_cast<char*>("transport_bench")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int out[2];
  if (pipe(out) != 0) Die("no pipe");
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out[1], STDOUT_FILENO);
    close(out[0]);
    close(out[1]);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(out[1]);
  FILE* lines = fdopen(out[0], "r");
  int port = -1;
  if (fscanf(lines, "%d", &port) != 1) Die("the server on " + address + " did not start");
  fclose(lines);
  if (!address.starts_with("unix:")) {
    address_ = address.substr(0, address.rfind(':') + 1) + std::to_string(port);
  }
}

Child::~Child() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  if (address_.starts_with("unix:")) unlink(address_.c_str() + 5);
}

double Child::CpuSeconds() const {
  clockid_t clock;
  if (clock_getcpuclockid(pid_, &clock) != 0) Die("a server is gone");
  return Seconds(clock);
}

double OwnCpuSeconds() { return Seconds(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace cohort::bench
