#include "tests/benchmarks/transport/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/os/child_process.h"
#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {

Child::Child(const std::vector<std::string>& arguments)
    : name_(fmt::format("{}", fmt::join(arguments, " "))) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) Die("no pipe");
  const UniqueFd its_in(in[0]);
  const UniqueFd its_out(out[1]);
  ChildProcessOptions options{
      .argv = {"/proc/self/exe"}, .stdin_fd = its_in.get(), .stdout_fd = its_out.get()};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  auto process = ChildProcess::Start(options);
  if (!process.ok()) Die(process.status().ToString());
  process_ = *std::move(process);
  in_ = fdopen(in[1], "w");
  out_ = fdopen(out[0], "r");
}

Child::~Child() {
  fclose(in_);
  fclose(out_);
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
  if (clock_getcpuclockid(process_->pid(), &clock) != 0 || clock_gettime(clock, &now) != 0) {
    Die("a process is gone: " + name_);
  }
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace cohort::bench
