#include "common/os/thread_stacks.h"

#include <absl/debugging/symbolize.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>

namespace cohort {
namespace {

constexpr int kMostFrames = 64;
constexpr int kAnswerMs = 500;  // that a thread has to answer the signal

// What the signal handler of the asked thread writes.
struct Answer {
  std::atomic<int> tid{0};  // the thread that is asked
  void* frames[kMostFrames] = {};
  std::atomic<int> count{-1};  // -1: no answer yet
};
Answer answer;

void OnSignal(int, siginfo_t*, void*) {
  const int error = errno;
  const auto own = static_cast<int>(syscall(SYS_gettid));
  if (answer.tid.load() == own) answer.count = backtrace(answer.frames, kMostFrames);
  errno = error;
}

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool WaitForAnswer() {
  for (int ms = 0; ms < kAnswerMs && answer.count.load() < 0; ++ms) {
    const timespec one_ms = {0, 1'000'000};
    nanosleep(&one_ms, nullptr);
  }
  return answer.count.load() >= 0;
}

void AppendFrames(std::string* text) {
  for (int i = 0; i < answer.count; ++i) {
    char name[256];
    // The address is that of the return; the call is before it.
    const void* const at = static_cast<const char*>(answer.frames[i]) - 1;
    const bool known = absl::Symbolize(at, name, sizeof(name));
    fmt::format_to(std::back_inserter(*text), "    {}\n",
                   known ? std::string(name) : fmt::format("{}", answer.frames[i]));
  }
}

}  // namespace

std::string StacksOfOtherThreads() {
  void* first[1];
  backtrace(first, 1);  // loads what the handler must not load
  absl::InitializeSymbolizer(nullptr);
  struct sigaction action = {}, before = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  const int signal = SIGRTMIN + 7;
  sigaction(signal, &action, &before);
  std::string text;
  const auto own = static_cast<int>(syscall(SYS_gettid));
  std::error_code failed;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    const std::string number = task.path().filename();
    int tid = 0;
    std::from_chars(number.data(), number.data() + number.size(), tid);
    if (tid == own || tid == 0) continue;
    answer.count = -1;
    answer.tid = tid;
    const std::string name = FirstLine(task.path() / "comm");
    if (syscall(SYS_tgkill, getpid(), tid, signal) != 0) continue;  // it has ended
    if (WaitForAnswer()) {
      fmt::format_to(std::back_inserter(text), "  {} ({})\n", name, tid);
      AppendFrames(&text);
    } else {
      fmt::format_to(std::back_inserter(text), "  {} ({}), in the kernel: {}, system call {}\n",
                     name, tid, FirstLine(task.path() / "wchan"),
                     FirstLine(task.path() / "syscall"));
    }
  }
  answer.tid = 0;
  return text;  // the handler stays: a late answer must not end the process
}

}  // namespace cohort
