#include "deploy/cluster_check/cluster_check.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/cluster/protocol_version.h"
#include "common/cluster/replica_cluster.h"
#include "common/cluster/socket_directory.h"
#include "common/os/identity.h"
#include "common/rpc/stream/frame_codec.h"
#include "common/rpc/stream/stream_client.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr char kMethod[] = "/cohort.v1.ClusterCheck/Exchange";
constexpr milliseconds kAttempt{3000};  // time limit of a connection, and of an answer
constexpr milliseconds kPause{200};     // between two attempts
constexpr std::chrono::seconds kReport{5};
constexpr std::chrono::seconds kChiefWait{5};  // for a chief that only dials

absl::Status Config(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kConfig);
}

// The path of this task's unix socket; "": it has none. Errors: as OwnSocketDirectory.
absl::StatusOr<std::string> ChooseUnixSocket(const ClusterCheckFlags& flags, Task task,
                                             const char* runtime_dir) {
  std::string directory = flags.unix_socket_dir;
  if (directory == "none") return "";
  if (directory.empty()) {
    const SocketDirectoryRoots roots{.runtime_dir = runtime_dir == nullptr ? "" : runtime_dir};
    COHORT_ASSIGN_OR_RETURN(directory, OwnSocketDirectory(roots));
  }
  if (directory.size() > kLongestSocketDirectory) {
    return WithExitCode(InvalidArgument("--unix_socket_dir: {} has more than {} characters",
                                        directory, kLongestSocketDirectory),
                        ExitCode::kUsage);
  }
  std::error_code unknown;  // the current directory is unknown: the path stays as it is
  const std::filesystem::path absolute = std::filesystem::absolute(directory, unknown);
  return SocketPath(unknown ? directory : absolute.string(), static_cast<uint32_t>(task.index),
                    RandomIncarnation());
}

// The task as certificates name it: among replicas, by the number of the replica.
Task CertifiedTask(const ClusterSpec& cluster, Task task) {
  if (cluster.count(Role::kPs) > 0) return task;
  const std::optional<int> replica = ReplicaOf(cluster, task);
  return replica.has_value() ? Task{Role::kWorker, *replica} : task;
}

Reach ReachOf(const absl::Status& closed) {
  if (absl::IsUnimplemented(closed)) {
    return {v1::OTHER_PROGRAM, "another gRPC server answers, perhaps a task of Cohort that runs"};
  }
  if (absl::IsFailedPrecondition(closed)) {
    return {v1::OTHER_VERSION, std::string(closed.message())};
  }
  return {v1::OTHER_PROGRAM, fmt::format("a program accepts the connection, and does not answer as "
                                         "`cohort cluster-check` ({})",
                                         std::string(closed.message()))};
}

}  // namespace

// The end of a stream that another task has opened.
class ClusterCheck::Served : public StreamHandler {
 public:
  Served(ClusterCheck* check, std::shared_ptr<Stream> stream)
      : check_(check), stream_(std::move(stream)) {}

  void OnFrame(Frame frame) override {
    v1::CheckReport report;
    absl::Status taken = ParseFromFrame(frame, &report);
    if (taken.ok()) taken = check_->TakeFrom(*stream_, report);
    if (taken.ok()) {
      stream_->Send(SerializeToFrame(check_->Report()));
    } else {
      stream_->Close(std::move(taken));
    }
  }
  void OnClosed(const absl::Status&) override {}

 private:
  ClusterCheck* const check_;
  const std::shared_ptr<Stream> stream_;
};

// The end of a stream to another task.
class ClusterCheck::Dialed : public StreamHandler {
 public:
  void OnFrame(Frame frame) override { parsed = ParseFromFrame(frame, &answer); }
  void OnClosed(const absl::Status& status) override { closed = status; }
  bool ended() const { return parsed.has_value() || closed.has_value(); }

  v1::CheckReport answer;
  std::optional<absl::Status> parsed;
  std::optional<absl::Status> closed;
};

absl::StatusOr<std::unique_ptr<ClusterCheck>> ClusterCheck::Start(const ClusterCheckFlags& flags,
                                                                  const TfConfig& config,
                                                                  const char* runtime_dir) {
  const Task self = config.task.value_or(Task{Role::kChief, 0});
  if (self.role == Role::kEvaluator) {
    return Config(InvalidArgument(
        "TF_CONFIG: task: an evaluator reaches no task and is reached by none: start `cohort "
        "cluster-check` on the other tasks"));
  }
  const bool replicas = config.cluster.count(Role::kPs) == 0;
  const Task certified = CertifiedTask(config.cluster, self);
  COHORT_ASSIGN_OR_RETURN(
      const std::shared_ptr<const Security> security,
      Security::Create({.allow_insecure = flags.allow_insecure,
                        .tls_dir = Security::DirectoryOf(certified, flags.tls_dir, replicas),
                        .replicas = replicas}));
  if (security->has_certificates()) {
    COHORT_RETURN_IF_ERROR(security->CheckOwnTask(certified));
  }
  v1::CheckedTask own;
  own.set_host_name(HostName());
  own.set_host_id(HostId());
  // Without a socket, tasks of this host meet over TCP.
  const absl::StatusOr<std::string> socket = ChooseUnixSocket(flags, self, runtime_dir);
  if (ExitCodeOf(socket.status()) == ExitCode::kUsage) return socket.status();
  if (socket.ok()) own.set_unix_socket(*socket);
  const std::string host_id = own.host_id();
  ReachTable table(config.cluster, self, std::move(own));
  for (const Task peer : table.peers()) {
    COHORT_RETURN_IF_ERROR(security->CheckDial(table.address(peer).ToString()));
  }
  std::unique_ptr<ClusterCheck> check(
      new ClusterCheck(self, config.cluster, security, std::move(table)));
  check->host_id_ = host_id;
  COHORT_RETURN_IF_ERROR(check->Listen(flags, config, socket.value_or("")));
  return check;
}

absl::Status ClusterCheck::Listen(const ClusterCheckFlags& flags, const TfConfig& config,
                                  const std::string& unix_socket) {
  const std::optional<Address> advertised = config.cluster.Find(self_);
  if (!advertised.has_value()) return absl::OkStatus();  // a chief that only dials
  COHORT_ASSIGN_OR_RETURN(const Address bind, BindAddress(flags.bind, *advertised));
  StreamServer::Options options;
  options.listen = {bind.ToString()};
  if (!unix_socket.empty()) options.listen.push_back("unix:" + unix_socket);
  options.security = security_;
  options.thread_name = "check";
  COHORT_ASSIGN_OR_RETURN(
      server_, StreamServer::Start(
                   options, {{kMethod, [this](std::shared_ptr<Stream> stream, CompletionLoop*) {
                                return std::make_unique<Served>(this, std::move(stream));
                              }}}));
  return absl::OkStatus();
}

ClusterCheck::~ClusterCheck() = default;

v1::CheckReport ClusterCheck::Report() const {
  MutexLock lock(&mu_);
  return table_.Report();
}

std::string ClusterCheck::Text() const {
  MutexLock lock(&mu_);
  return table_.Text();
}

absl::Status ClusterCheck::Take(const v1::CheckReport& report) {
  COHORT_RETURN_IF_ERROR(CheckProtocol(TaskOf(report.sender()).ToString(),
                                       ProtocolVersion::Of(report), self_.ToString()));
  MutexLock lock(&mu_);
  table_.Merge(report);
  changed_.SignalAll();
  return absl::OkStatus();
}

absl::Status ClusterCheck::TakeFrom(const Stream& stream, const v1::CheckReport& report) {
  COHORT_RETURN_IF_ERROR(stream.CheckClaim(CertifiedTask(cluster_, TaskOf(report.sender()))));
  return Take(report);
}

Reach ClusterCheck::Exchange(Task peer, const std::string& address, v1::CheckReport* answer) {
  StreamClient::Options options;
  options.task = CertifiedTask(cluster_, peer);
  options.security = security_;
  options.transport.connect_attempt_timeout = kAttempt;
  auto client = StreamClient::Create(address, options);
  if (!client.ok()) return {v1::CONNECT_FAILED, std::string(client.status().message())};
  Dialed handler;
  CompletionLoop loop;  // ends before the handler
  const auto stream = (*client)->Open(kMethod, &handler, &loop, {.wait_for_ready = false});
  stream->Send(SerializeToFrame(Report()));
  if (!loop.RunUntil([&] { return handler.ended(); }, Clock::now() + kAttempt)) {
    return ReachOf(DeadlineExceeded("no answer in {} s", kAttempt.count() / 1000));
  }
  if (!handler.parsed.has_value()) {
    // The TCP connection was there, so one end has judged the certificate of the other one.
    const bool verdict = absl::IsPermissionDenied(*handler.closed) ||
                         (security_->uses_tls(address) && absl::IsUnavailable(*handler.closed));
    if (verdict) return {v1::CONNECT_FAILED, std::string(handler.closed->message())};
    return ReachOf(*handler.closed);
  }
  if (!handler.parsed->ok()) return ReachOf(*handler.parsed);
  *answer = std::move(handler.answer);
  stream->Close(absl::OkStatus());
  loop.RunUntil([&] { return handler.closed.has_value(); }, Clock::now() + kAttempt);
  return {v1::REACHED, ""};
}

v1::CheckedPeer ClusterCheck::Try(Task peer) {
  Address address;
  {
    MutexLock lock(&mu_);
    address = table_.address(peer);
  }
  Reach reach = ProbeTcp(address, kAttempt);
  v1::CheckReport answer;
  if (reach.outcome == v1::REACHED) reach = Exchange(peer, address.ToString(), &answer);
  if (reach.outcome == v1::REACHED) {
    const Task sender = TaskOf(answer.sender());
    if (const absl::Status taken = Take(answer); !taken.ok()) {
      reach = {v1::OTHER_VERSION, std::string(taken.message())};
    } else if (sender != peer) {
      reach = {v1::OTHER_TASK, sender.ToString() + " answers there"};
    }
  }
  v1::CheckedPeer result;
  *result.mutable_task() = TaskIdOf(peer);
  result.set_outcome(reach.outcome);
  result.set_detail(reach.detail);
  if (reach.outcome != v1::REACHED) return result;
  for (const v1::CheckedTask& row : answer.tasks()) {
    if (TaskOf(row.task()) != peer || row.host_id() != host_id_) continue;
    result.set_same_host(true);
    v1::CheckReport same;
    const Reach joined = row.unix_socket().empty()
                             ? Reach{v1::REFUSED, "it has no unix socket"}
                             : Exchange(peer, "unix:" + row.unix_socket(), &same);
    result.set_unix_error(joined.detail);
  }
  return result;
}

void ClusterCheck::TryPeer(Task peer) {
  while (true) {
    v1::CheckedPeer result = Try(peer);
    MutexLock lock(&mu_);
    table_.Record(std::move(result));
    changed_.SignalAll();
    const Clock::time_point next = Clock::now() + kPause;
    while (!stopping_ && stopped_.WaitUntil(&mu_, next)) {
    }
    if (stopping_) return;
  }
}

bool ClusterCheck::Run(milliseconds limit, const std::function<void(std::string_view)>& report) {
  const Clock::time_point deadline = Clock::now() + limit;
  const Clock::time_point chief_deadline = std::min(deadline, Clock::now() + kChiefWait);
  Clock::time_point next_report = Clock::now() + kReport;
  std::vector<Task> peers;
  {
    MutexLock lock(&mu_);
    peers = table_.peers();
  }
  std::vector<std::thread> threads;
  for (const Task peer : peers) threads.emplace_back([this, peer] { TryPeer(peer); });
  bool works = false;
  {
    MutexLock lock(&mu_);
    const auto may_end = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      works = table_.AllReached();
      return works && table_.AllComplete() &&
             (!table_.AwaitsChief() || Clock::now() >= chief_deadline);
    };
    while (!may_end() && Clock::now() < deadline) {
      if (Clock::now() >= next_report) {
        next_report += kReport;
        const std::string waiting = table_.Waiting();
        if (!waiting.empty()) report("waiting for " + waiting);
      }
      const bool awaits_chief = Clock::now() < chief_deadline;
      changed_.WaitUntil(&mu_, std::min(awaits_chief ? chief_deadline : deadline, next_report));
    }
    stopping_ = true;
    stopped_.SignalAll();
  }
  for (std::thread& thread : threads) thread.join();
  return works;
}

}  // namespace cohort
