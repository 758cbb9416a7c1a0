#include "common/kernels/external_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/printable.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

constexpr char kCommandVariable[] = "COHORT_EXTERNAL_STEP";
constexpr size_t kMostAnswerBytes = 1 << 20;

uint64_t NextId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

absl::StatusOr<std::vector<std::string>> Command() {
  const char* const text = std::getenv(kCommandVariable);
  if (text == nullptr) {
    return FailedPrecondition(
        "the model is an external step: set {} for each worker to the command that computes it, as "
        "[\"python3\", \"-m\", \"cohort.external\", \"my_step.py:step\"]",
        kCommandVariable);
  }
  const auto words = nlohmann::json::parse(text, nullptr, false);
  std::vector<std::string> command;
  if (words.is_array()) {
    for (const auto& word : words) {
      if (word.is_string()) command.push_back(word.get<std::string>());
    }
  }
  if (command.empty() || command.size() != words.size()) {
    return InvalidArgument("{} is not a list of words as JSON: {}", kCommandVariable,
                           PrintableLine(text));
  }
  return command;
}

std::string HowItEnded(int wait_status) {
  return WIFSIGNALED(wait_status) ? fmt::format("was killed by signal {}", WTERMSIG(wait_status))
                                  : fmt::format("exited with {}", WEXITSTATUS(wait_status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedRegion>> SharedRegion::Create(size_t bytes) {
  const int fd = ::memfd_create("cohort-external", MFD_CLOEXEC);
  if (fd < 0) return ErrnoStatus("cannot create memory for", "an external step", errno);
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    ::close(fd);
    return ErrnoStatus("cannot size the memory of", "an external step", error);
  }
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    return ErrnoStatus("cannot map the memory of", "an external step", error);
  }
  return std::unique_ptr<SharedRegion>(new SharedRegion(fd, static_cast<uint8_t*>(data), bytes));
}

SharedRegion::SharedRegion(int fd, uint8_t* data, size_t bytes)
    : fd_(fd), data_(data), bytes_(bytes), id_(NextId()) {}

SharedRegion::~SharedRegion() {
  ::munmap(data_, bytes_);
  ::close(fd_);
}

std::shared_ptr<ExternalProcess> ExternalProcess::OfThisTask() {
  static Mutex mutex;
  static std::weak_ptr<ExternalProcess> shared;
  const MutexLock lock(&mutex);
  std::shared_ptr<ExternalProcess> process = shared.lock();
  if (process == nullptr) {
    process = std::make_shared<ExternalProcess>();
    shared = process;
  }
  return process;
}

ExternalProcess::~ExternalProcess() {
  const MutexLock lock(&mutex_);
  End();
}

absl::Status ExternalProcess::Call(const SharedRegion& region, const std::string& call) {
  const MutexLock lock(&mutex_);
  constexpr int kTries = 2;
  for (int i = 1;; ++i) {
    if (child_ == nullptr) COHORT_RETURN_IF_ERROR(Start());
    const auto answer = Exchange(region, call);
    if (answer.ok()) {
      const auto json = nlohmann::json::parse(*answer, nullptr, false);
      if (!json.is_object()) return Internal("the external step answered no JSON object");
      const auto error = json.find("error");
      if (error == json.end()) return absl::OkStatus();
      return InvalidArgument("the external step failed: {}",
                             error->is_string() ? error->get<std::string>() : error->dump());
    }
    const std::string how = HowItEnded(End());
    if (i == kTries) return Internal("the process of the external step {} during a call", how);
  }
}

absl::Status ExternalProcess::Start() {
  COHORT_ASSIGN_OR_RETURN(auto command, Command());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus("cannot connect", "the external step", errno);
  }
  ChildProcessOptions options;
  options.argv = std::move(command);
  options.stdin_fd = ends[1];
  options.own_group = true;
  auto child = ChildProcess::Start(options);
  ::close(ends[1]);
  if (!child.ok()) {
    ::close(ends[0]);
    return Annotate(child.status(), "the external step");
  }
  child_ = *std::move(child);
  socket_ = ends[0];
  process_ = static_cast<int>(::syscall(SYS_pidfd_open, child_->pid(), 0));
  if (process_ < 0) {
    const int error = errno;
    End();
    return ErrnoStatus("cannot watch", "the external step", error);
  }
  return absl::OkStatus();
}

int ExternalProcess::End() {
  if (child_ == nullptr) return 0;
  const std::optional<int> ended = child_->Poll();
  // Its own processes are of its group.
  ::kill(-child_->pid(), SIGKILL);
  const int status = child_->Wait();
  child_.reset();
  ::close(std::exchange(process_, -1));
  ::close(std::exchange(socket_, -1));
  mapped_.clear();
  return ended.value_or(status);
}

absl::StatusOr<std::string> ExternalProcess::Exchange(const SharedRegion& region,
                                                      const std::string& call) {
  if (!mapped_.contains(region.id())) {
    COHORT_RETURN_IF_ERROR(Send(
        fmt::format("{{\"map\": {}, \"bytes\": {}}}\n", region.id(), region.bytes()), region.fd()));
    mapped_.insert(region.id());
  }
  COHORT_RETURN_IF_ERROR(Send(call + "\n", -1));
  return ReadLine();
}

absl::Status ExternalProcess::Send(const std::string& line, int descriptor) {
  size_t sent = 0;
  while (sent < line.size()) {
    iovec bytes{const_cast<char*>(line.data()) + sent, line.size() - sent};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (descriptor >= 0 && sent == 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    const ssize_t n = ::sendmsg(socket_, &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Unavailable("the external step has ended");
    sent += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ExternalProcess::ReadLine() {
  std::string line;
  char block[4096];
  while (line.size() < kMostAnswerBytes) {
    // What the step has started may hold its end of the socket open.
    pollfd events[] = {{socket_, POLLIN, 0}, {process_, POLLIN, 0}};
    if (::poll(events, 2, -1) < 0 && errno != EINTR) return Unavailable("it cannot be awaited");
    if (events[0].revents == 0) {
      if (events[1].revents == 0) continue;
      return Unavailable("the external step has ended");
    }
    const ssize_t n = ::recv(socket_, block, sizeof(block), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Unavailable("the external step has ended");
    line.append(block, static_cast<size_t>(n));
    if (line.back() == '\n') return line;
  }
  return Unavailable("the external step answers without end");
}

}  // namespace cohort
