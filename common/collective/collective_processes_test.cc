// Groups of real processes, of which one is killed or stopped in the middle of its collectives.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/base/unique_fd.h"
#include "common/os/child_process.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/time_test_util.h"

namespace cohort {
namespace {

using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kDeadline{1500};
const Milliseconds kLimit = testing::Scaled(std::chrono::seconds(30));
// More sums than a test has time for.
constexpr int kEndless = 10'000'000;

// One rank in a process of its own.
class Peer {
 public:
  Peer(const std::string& socket, uint64_t incarnation)
      : socket_(socket), incarnation_(incarnation) {
    int in[2];
    int out[2];
    REQUIRE(pipe2(in, O_CLOEXEC) == 0);
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    const UniqueFd child_in(in[0]);
    const UniqueFd child_out(out[1]);
    in_ = UniqueFd(in[1]);
    out_ = UniqueFd(out[0]);
    ChildProcessOptions options;
    options.argv = {COHORT_COLLECTIVE_TEST_PEER, socket};
    options.stdin_fd = child_in.get();
    options.stdout_fd = child_out.get();
    auto process = ChildProcess::Start(options);
    REQUIRE(process.ok());
    process_ = *std::move(process);
    port_ = Read().substr(5);
  }

  void Write(const std::string& line) {
    const std::string text = line + "\n";
    REQUIRE(write(in_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  // The next line of the peer; "" if none comes in time.
  std::string Read() {
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    while (unread_.find('\n') == std::string::npos) {
      const auto rest =
          std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd ready = {.fd = out_.get(), .events = POLLIN, .revents = 0};
      char bytes[256];
      if (rest.count() <= 0 || poll(&ready, 1, static_cast<int>(rest.count())) <= 0) return "";
      const ssize_t count = read(out_.get(), bytes, sizeof(bytes));
      if (count <= 0) return "";
      unread_.append(bytes, static_cast<size_t>(count));
    }
    const size_t end = unread_.find('\n');
    std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    return line;
  }
  ChildProcess& process() { return *process_; }
  // What `group` needs to know about this rank.
  std::string ToString() const {
    return port_ + " " + std::to_string(incarnation_) + " " + socket_;
  }

 private:
  const std::string socket_;
  const uint64_t incarnation_;
  UniqueFd in_;
  UniqueFd out_;
  std::unique_ptr<ChildProcess> process_;
  std::string port_;
  std::string unread_;
};

class Peers {
 public:
  Peers(int count, bool shared) : shared_(shared) {
    for (int i = 0; i < count; ++i) Add();
  }
  void Add() {
    const uint64_t incarnation = 100 + next_++;
    peers_.push_back(std::make_unique<Peer>(
        directory_ / ("peer" + std::to_string(incarnation) + ".sock"), incarnation));
  }
  void Replace(size_t i) {
    Add();
    peers_[i] = std::move(peers_.back());
    peers_.pop_back();
  }
  Peer& operator[](size_t i) { return *peers_[i]; }

  // The command with which `rank` joins a group of the first `ranks` peers.
  std::string GroupCommand(int epoch, size_t rank, size_t ranks) const {
    std::string line = "group " + std::to_string(epoch) + " " + std::to_string(rank) + " " +
                       std::to_string(kDeadline.count()) + (shared_ ? " 1" : " 0");
    for (size_t i = 0; i < ranks; ++i) line += " " + peers_[i]->ToString();
    return line;
  }
  void StartGroup(int epoch, size_t ranks) {
    for (size_t i = 0; i < ranks; ++i) peers_[i]->Write(GroupCommand(epoch, i, ranks));
    for (size_t i = 0; i < ranks; ++i) CHECK(peers_[i]->Read() == "ok");
  }
  // Returns when every rank has done the first one.
  void Sum(size_t ranks, int step, int elements, int count) {
    for (size_t i = 0; i < ranks; ++i) {
      peers_[i]->Write("sum " + std::to_string(step) + " " + std::to_string(elements) + " " +
                       std::to_string(count));
    }
    for (size_t i = 0; i < ranks; ++i) CHECK(peers_[i]->Read() == "begun");
  }
  void CheckSum(size_t ranks, int step, int elements, int count) {
    Sum(ranks, step, elements, count);
    for (size_t i = 0; i < ranks; ++i) CHECK(peers_[i]->Read() == "ok");
  }

 private:
  const bool shared_;
  const testing::TestDirectory directory_;
  uint64_t next_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;
};

// The signals come at any point of a collective.
TEST_CASE("a rank that is killed is named, and its successor joins the new epoch") {
  const bool shared = GENERATE(false, true);
  const int elements = GENERATE(1000, 1'000'000);
  Peers peers(3, shared);
  peers.StartGroup(1, 3);
  peers.CheckSum(3, 1, elements, 4);
  peers.Sum(3, 100, elements, kEndless);
  peers[2].process().Signal(SIGKILL);
  peers[2].process().Wait();
  CHECK(peers[0].Read() == "error UNAVAILABLE 2");
  CHECK(peers[1].Read() == "error UNAVAILABLE 2");
  peers.Replace(2);
  peers.StartGroup(2, 3);
  peers.CheckSum(3, 1, elements, 4);
}

TEST_CASE("a rank that is stopped is named, and cannot disturb the new group when it wakes") {
  const bool shared = GENERATE(false, true);
  const int elements = GENERATE(1000, 1'000'000);
  Peers peers(3, shared);
  peers.StartGroup(1, 3);
  peers.CheckSum(3, 1, elements, 4);
  peers.Sum(3, 100, elements, kEndless);
  peers[2].process().Signal(SIGSTOP);
  const auto stopped = std::chrono::steady_clock::now();
  CHECK(peers[0].Read() == "error DEADLINE_EXCEEDED 2");
  CHECK(peers[1].Read() == "error DEADLINE_EXCEEDED 2");
  const auto took = std::chrono::steady_clock::now() - stopped;
  CHECK(took >= kDeadline);
  CHECK(took < kDeadline + testing::Scaled(std::chrono::seconds(3)));
  // The ranks that are left continue, and the third one wakes while they do.
  peers.StartGroup(2, 2);
  peers.CheckSum(2, 1, elements, 4);
  peers.Sum(2, 100, elements, 300);
  peers[2].process().Signal(SIGCONT);
  const std::string woken = peers[2].Read();
  CHECK_THAT(woken, Catch::StartsWith("error "));
  // It has no way into the new group, nor back into the old one.
  peers[2].Write(peers.GroupCommand(2, 2, 3));
  CHECK_THAT(peers[2].Read(), Catch::StartsWith("error DEADLINE_EXCEEDED"));
  peers[2].Write(peers.GroupCommand(1, 2, 3));
  CHECK(peers[2].Read() == "error FAILED_PRECONDITION -1");
  CHECK(peers[0].Read() == "ok");
  CHECK(peers[1].Read() == "ok");
  peers.CheckSum(2, 10'000, elements, 4);
  // With the next epoch it is a member again.
  peers.StartGroup(3, 3);
  peers.CheckSum(3, 1, elements, 4);
}

}  // namespace
}  // namespace cohort
