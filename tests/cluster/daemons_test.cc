// The daemons as processes: signals, ports, directories.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/unique_fd.h"
#include "common/cluster/free_ports.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

// A job that does not end before the test has released it.
class PacedScenario : public Scenario {
 public:
  explicit PacedScenario(const std::string& name, MiniClusterOptions options = {})
      : Scenario(Body::kProcesses, name, Paced(std::move(options))) {
    Pace(0);
  }

 private:
  static MiniClusterOptions Paced(MiniClusterOptions options) {
    options.workers = 2;
    if (options.job_yaml.empty()) options.job_yaml = RecommenderJob(30, 50);
    options.proxied = true;
    return options;
  }
};

void RequireSaid(Scenario* s, TaskRole role, int index, const std::string& text) {
  const std::string tail = (*s)->LogTail(role, index, 40);
  INFO(tail);
  REQUIRE(tail.find(text) != std::string::npos);
}

// A connection to a port of loopback; none if no process listens.
UniqueFd Dial(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  return UniqueFd();
}

// The answer of the admin port; "" if there is none.
std::string Get(int port, const std::string& path) {
  const UniqueFd connected = Dial(port);
  const int fd = connected.get();
  std::string answer;
  if (connected.ok()) {
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    char buffer[4096];
    ssize_t got = 0;
    while ((got = recv(fd, buffer, sizeof(buffer), 0)) > 0) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  return answer;
}

// The value of a metric without labels in an answer of /metrics.
double Metric(const std::string& answer, const std::string& name) {
  INFO(answer);
  const size_t at = answer.find("\n" + name + " ");
  REQUIRE(at != std::string::npos);
  return std::stod(answer.substr(at + name.size() + 2));
}

// grpc.health.v1.Health/Check of the server as a whole: the answer's bytes, "\x08\x01" = SERVING.
std::string Health(int port) {
  grpc::GenericStub stub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + Scaled(seconds(20)));
  grpc::CompletionQueue queue;
  grpc::ByteBuffer request, response;
  const grpc::Slice empty;
  request = grpc::ByteBuffer(&empty, 1);
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, &queue);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return status.error_message();
  std::vector<grpc::Slice> slices;
  (void)response.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

TEST_CASE("SIGTERM ends a task with 143, and the others continue") {
  // No checkpoint and no end of an epoch is near, so each worker has closures that it has not
  // started.
  MiniClusterOptions options;
  options.job_yaml = RecommenderJob(1, 600, 32 * 1000);
  PacedScenario s("sigterm", options);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(60, seconds(60)));
  const std::string log = s->apply_log(1);
  for (const TaskRole role : {TaskRole::kWorker, TaskRole::kChief, TaskRole::kPs}) {
    INFO(TaskRoleName(role));
    const int index = role == TaskRole::kWorker ? 1 : 0;
    s.Check(s.processes()->Signal(role, index, SIGTERM));
    REQUIRE(s.ExitOf(role, index, seconds(60)) == 128 + SIGTERM);
    if (role == TaskRole::kWorker) {  // it gave back the closures that it had not started
      s.Said(TaskRole::kChief, 0, {"worker_set_aside", "worker:1", "it is ending"});
      s.Said(TaskRole::kChief, 0, {"task_leaves", "worker:1"});
    }
    s.Check(s->Start(role, index));
    // Training continues.
    LineFollower updates(log, SizeOf(log));
    int lines = 0;
    REQUIRE(updates.WaitFor([&](std::string_view) { return ++lines == 3; }, seconds(60)));
  }
  s.Release(0);
  REQUIRE(s.Finish().timelines == 2);  // the server was lost, once
}

TEST_CASE("SIGTERM ends a worker whose step never ends") {
  MiniClusterOptions options{.servers = 1, .workers = 1, .job_yaml = RecommenderJob(30, 50)};
  options.flags[TaskRole::kWorker] = {"--crash_point", "worker.push.sent:3:hold",
                                      "--drain_timeout_s", "0.1"};
  Scenario s(Body::kProcesses, "stuck", options);
  s.Check(s->StartAll());
  s.Said(TaskRole::kWorker, 0, {"crash_point name=worker.push.sent nth=3 held"});
  s.Check(s.processes()->Signal(TaskRole::kWorker, 0, SIGTERM));
  REQUIRE(s.ExitOf(TaskRole::kWorker, 0, seconds(60)) == 128 + SIGTERM);
  RequireSaid(&s, TaskRole::kWorker, 0, "the step thread of worker:0 has not stopped");
}

TEST_CASE("a job with closure_timeout_s ends when the step of its only worker never ends") {
  std::string job = RecommenderJob(30, 50);
  job.replace(job.find("strategy:"), 9, "strategy:\n  closure_timeout_s: 1");
  MiniClusterOptions options{.servers = 1, .workers = 1, .job_yaml = job};
  options.flags[TaskRole::kWorker] = {"--crash_point", "worker.push.sent:3:hold"};
  Scenario s(Body::kProcesses, "alone", options);
  s.Check(s->StartAll());
  s.Said(TaskRole::kWorker, 0, {"crash_point name=worker.push.sent nth=3 held"});
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 169);
  s.Said(TaskRole::kChief, 0,
         {"error: ", "worker:0 (", ") has reported no result for ", "closure_timeout_s is 1 s"});
}

TEST_CASE("a worker whose step hangs logs its stacks, ends, and loses nothing") {
  MiniClusterOptions options{.servers = 1, .workers = 1, .job_yaml = RecommenderJob(3, 50)};
  options.flags[TaskRole::kWorker] = {"--stall_timeout_s", "2"};
  Scenario s(Body::kProcesses, "hang", options);
  s.Check(s->Start(TaskRole::kPs, 0));
  s.Check(s->Start(TaskRole::kWorker, 0, {"--crash_point", "worker.push.sent:3:hold"}));
  s.Check(s->Start(TaskRole::kChief, 0));
  REQUIRE(s.ExitOf(TaskRole::kWorker, 0, seconds(60)) == 169);
  RequireSaid(&s, TaskRole::kWorker, 0, "HitCrashPoint");  // the function that does not return
  RequireSaid(&s, TaskRole::kWorker, 0, "error: a thread of the worker has stood still for 2 s");
  s.Check(s->Start(TaskRole::kWorker, 0));
  const ApplyReport report = s.Finish();
  REQUIRE(report.applied == 30);
  REQUIRE(report.timelines == 1);
}

TEST_CASE("SIGTERM ends a server whose storage does not answer", "[storage]") {
  MiniClusterOptions options{.servers = 1, .workers = 1, .job_yaml = RecommenderJob(30, 50)};
  options.flags[TaskRole::kPs] = {"--crash_point", "ps.snapshot.writing:1:hold",
                                  "--drain_timeout_s", "0.1"};
  Scenario s(Body::kProcesses, "storage", options);
  s.Check(s->StartAll());
  s.Said(TaskRole::kPs, 0, {"crash_point name=ps.snapshot.writing nth=1 held"});
  s.Check(s.processes()->Signal(TaskRole::kPs, 0, SIGTERM));
  REQUIRE(s.ExitOf(TaskRole::kPs, 0, seconds(60)) == 128 + SIGTERM);
  RequireSaid(&s, TaskRole::kPs, 0, "a snapshot, does not end; does its storage answer?");
}

// A chief that hangs at a crash point, in a job that does not end.
class HeldChief : public Scenario {
 public:
  HeldChief(const std::string& point, TaskFlags flags = {})
      : Scenario(Body::kProcesses, "chief_held", Options(point, std::move(flags))) {
    Check((*this)->StartAll());
    const size_t colon = point.find(':');
    Said(TaskRole::kChief, 0,
         {fmt::format("crash_point name={} nth={} held", point.substr(0, colon),
                      point.substr(colon + 1, point.rfind(':') - colon - 1))});
  }

 private:
  static MiniClusterOptions Options(const std::string& point, TaskFlags flags) {
    MiniClusterOptions options{.servers = 1, .workers = 1, .job_yaml = RecommenderJob(10000, 50)};
    flags.insert(flags.end(), {"--crash_point", point});
    options.flags[TaskRole::kChief] = std::move(flags);
    return options;
  }
};

TEST_CASE("SIGTERM ends a chief whose storage does not answer, and it logs what it is waiting for",
          "[storage]") {
  const auto [point, what] = GENERATE(table<const char*, const char*>(
      {{"chief.cut.manifest_writing:2:hold", ": a manifest is being written, "},
       {"chief.journal.writing:6:hold", ": the journal is being written, "},
       {"chief.cut.manifest_written:2:hold", ": training; "}}));  // under the coordinator's lock
  INFO(point);
  HeldChief s(point);
  s.Check(s.processes()->Signal(TaskRole::kChief, 0, SIGTERM));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 128 + SIGTERM);
  RequireSaid(&s, TaskRole::kChief, 0, what);
  RequireSaid(&s, TaskRole::kChief, 0, "does its storage answer?");
}

TEST_CASE("a job that fails while its storage hangs logs the reason at once, answers, and ends",
          "[storage]") {
  const int port = ChooseFreePorts(1).value().front();
  HeldChief s("chief.cut.manifest_writing:2:hold", {"--admin_port", std::to_string(port)});
  const std::string directory = s->checkpoint_dir();
  std::filesystem::rename(directory, directory + ".away");
  s.Said(TaskRole::kChief, 0, {"cohort-chief: error: ", " was deleted, moved"});
  const std::string waits = "waiting for the storage of " + directory + ": a manifest is being";
  s.Said(TaskRole::kChief, 0, {waits});
  REQUIRE(Get(port, "/statusz").find(waits) != std::string::npos);
  REQUIRE(Get(port, "/metrics").find("cohort_chief_steps") != std::string::npos);
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 74);
  RequireSaid(&s, TaskRole::kChief, 0, "does its storage answer?");
}

TEST_CASE("a chief is not ready while it reads its checkpoint directory", "[storage]") {
  const int port = ChooseFreePorts(1).value().front();
  HeldChief s("chief.fresh.deleting:1:hold", {"--fresh", "--admin_port", std::to_string(port)});
  const std::string answer = Get(port, "/readyz");
  INFO(answer);
  REQUIRE(answer.find(" 503 ") != std::string::npos);
  REQUIRE(answer.find("reading what " + s->checkpoint_dir() + " holds") != std::string::npos);
  REQUIRE(Get(port, "/healthz").find("200 OK") != std::string::npos);
}

TEST_CASE("a chief that cannot start because its journal hangs ends with the reason", "[storage]") {
  Scenario s(Body::kProcesses, "start_held",
             MiniClusterOptions{.servers = 1, .workers = 1, .job_yaml = RecommenderJob(1, 0)});
  for (const TaskRole role : {TaskRole::kPs, TaskRole::kWorker}) {
    s.Check(s->Start(role, 0));
    s.Said(role, 0, {"listening"});
  }
  s.Check(s->Start(TaskRole::kChief, 0,
                   {"--crash_point", "chief.journal.writing:1:hold", "--task_timeout_s", "5"}));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 169);
  RequireSaid(&s, TaskRole::kChief, 0, "error: waiting for the journal: gave up after 5 s");
  RequireSaid(&s, TaskRole::kChief, 0, ": the journal is being written, ");
}

TEST_CASE("every role serves its admin port during training, and logs which port it is") {
  PacedScenario s("admin", {.job_yaml = WithValidation(RecommenderJob(30, 50))});
  std::vector<int> ports;
  const auto admin = [&](TaskRole role) {
    s.Check(s->Start(role, 0, {"--admin_port", "0"}));
    const std::string line = s.Said(role, 0, {" admin_port="});
    ports.push_back(std::atoi(line.c_str() + line.find(" admin_port=") + 12));
  };
  s.Check(s->Start(TaskRole::kPs, 1));
  s.Check(s->Start(TaskRole::kWorker, 1));
  admin(TaskRole::kEvaluator);
  const std::string waits = Get(ports[0], "/statusz");
  REQUIRE(waits.find("waiting for a checkpoint (" + s->checkpoint_dir() + "), ") !=
          std::string::npos);
  REQUIRE(waits.find("\nnothing was evaluated yet\n") != std::string::npos);
  admin(TaskRole::kPs);
  admin(TaskRole::kWorker);
  // Readiness does not wait for the chief.
  for (const int port : ports) {
    REQUIRE(Get(port, "/readyz").find("200 OK") != std::string::npos);
  }
  admin(TaskRole::kChief);
  s.Check(s->WaitForSteps(10, seconds(60)));
  s.Said(TaskRole::kEvaluator, 0, {" evaluated "});
  const char* metric[] = {"cohort_evaluator_evaluations_total", "cohort_ps_",
                          "cohort_worker_steps_total",
                          "cohort_chief_worker_steps_total{worker=\"1\"}"};
  const char* status[] = {"\nevaluated ckpt-", "tablet ", "closures queued", " in flight on "};
  for (size_t i = 0; i < 4; ++i) {
    INFO(metric[i]);
    REQUIRE(Get(ports[i], "/metrics").find(metric[i]) != std::string::npos);
    REQUIRE(Get(ports[i], "/healthz").find("200 OK") != std::string::npos);
    REQUIRE(Get(ports[i], "/readyz").find("200 OK") != std::string::npos);
    const std::string page = Get(ports[i], "/statusz");
    INFO(page);
    REQUIRE(page.find("200 OK") != std::string::npos);
    REQUIRE(page.find(status[i]) != std::string::npos);
  }
  // What the chief counts for each worker.
  const auto limit = std::chrono::steady_clock::now() + Scaled(seconds(60));
  std::string chief;
  for (const char* worker : {"0", "1"}) {
    const auto steps = fmt::format("cohort_chief_worker_steps_total{{worker=\"{}\"}}", worker);
    while (Metric(chief = Get(ports[3], "/metrics"), steps) == 0) {
      REQUIRE(std::chrono::steady_clock::now() < limit);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  CHECK(Metric(chief, "cohort_chief_examples_total") > 0);
  const std::string page = Get(ports[3], "/statusz");
  for (const char* worker : {"worker:0", "worker:1"}) {
    CHECK_THAT(page, Catch::Contains(fmt::format("\n{}  ", worker)));
  }
  CHECK_THAT(page, Catch::Contains(" closures in hand, no result for "));
  // The health protocol of gRPC, for the tasks that serve gRPC.
  REQUIRE(Health(s->port(TaskRole::kPs, 0)) == "\x08\x01");
  REQUIRE(Health(s->port(TaskRole::kWorker, 0)) == "\x08\x01");
  s.Release(0);
  s.Finish();
  REQUIRE(s.ExitOf(TaskRole::kEvaluator, 0, seconds(60)) == 0);
}

// Listens on loopback and accepts no connection: established ones stay in its queue.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    REQUIRE(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address_), size) == 0);
    REQUIRE(listen(fd_.get(), 64) == 0);
    REQUIRE(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address_), &size) == 0);
  }
  int port() const { return ntohs(address_.sin_port); }
  bool dialled() const {
    return UniqueFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)).ok();
  }

 private:
  const UniqueFd fd_;
  sockaddr_in address_{};
};

TEST_CASE("no task dials an evaluator that the cluster names") {
  const Listener evaluator;
  MiniClusterOptions options{.job_yaml = WithValidation(RecommenderJob(3, 0))};
  options.evaluator_address = fmt::format("127.0.0.1:{}", evaluator.port());
  Scenario s(Body::kProcesses, "undialled", options);
  s.Check(s->StartAll());
  s.Check(s->Start(TaskRole::kEvaluator, 0));
  REQUIRE(s.Finish().applied == 2u * 30);
  REQUIRE(s.ExitOf(TaskRole::kEvaluator, 0, seconds(60)) == 0);
  REQUIRE_FALSE(evaluator.dialled());
  // A connection that is made and closed would be seen.
  REQUIRE(Dial(evaluator.port()).ok());
  REQUIRE(evaluator.dialled());
}

TEST_CASE("plaintext beyond loopback is refused without --allow_insecure") {
  Scenario s(Body::kProcesses, "plain", MiniClusterOptions{.job_yaml = RecommenderJob(1, 0)});
  for (const TaskRole role : {TaskRole::kWorker, TaskRole::kPs}) {
    s.Check(s->Start(role, 0, {"--bind", fmt::format("0.0.0.0:{}", s->port(role, 0))}));
    REQUIRE(s.ExitOf(role, 0, seconds(60)) == 78);
    RequireSaid(&s, role, 0, "--allow_insecure");
    s.Check(s->Start(role, 0,
                     {"--allow_insecure", "--bind", fmt::format("0.0.0.0:{}", s->port(role, 0))}));
    s.Said(role, 0, {"listening"});
  }
}

TEST_CASE("a port that is taken is named") {
  Scenario s(Body::kProcesses, "taken", MiniClusterOptions{.job_yaml = RecommenderJob(1, 0)});
  for (const TaskRole role : {TaskRole::kWorker, TaskRole::kPs}) {
    s.Check(s->Start(role, 0));
    s.Said(role, 0, {"listening"});
    // Another task on the same port.
    const std::string taken = fmt::format("127.0.0.1:{}", s->port(role, 0));
    s.Check(s->Start(role, 1, {"--bind", taken}));
    REQUIRE(s.ExitOf(role, 1, seconds(60)) == 73);
    RequireSaid(&s, role, 1, taken + " is taken");
  }
}

TEST_CASE("a checkpoint directory that a server does not share is an error that names it") {
  const ClusterDirectory chief("chiefs-own");
  const ClusterDirectory ps("ps-own");
  MiniClusterOptions options{.workers = 1, .job_yaml = RecommenderJob(1, 0)};
  options.checkpoint_dir = "/proc/self/cwd/checkpoints";  // another one for each process
  std::filesystem::create_directories(ps.path() + "/checkpoints");
  options.working_directory = {{TaskRole::kChief, chief.path()}, {TaskRole::kPs, ps.path()}};
  Scenario s(Body::kProcesses, "unshared", options);
  s.Check(s->StartAll());
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 78);
  RequireSaid(&s, TaskRole::kChief, 0, "does not see the checkpoint directory");
}

}  // namespace
}  // namespace cohort
