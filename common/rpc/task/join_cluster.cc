#include "common/rpc/task/join_cluster.h"

#include <absl/strings/str_split.h>
#include <netdb.h>
#include <sys/socket.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/base/unique_fd.h"
#include "common/cluster/address.h"
#include "common/cluster/free_ports.h"
#include "common/cluster/protocol_version.h"
#include "common/cluster/tf_config.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream_client.h"
#include "proto/chief.pb.h"

namespace cohort {
namespace {

constexpr std::chrono::seconds kAskAgainAfter{1};
constexpr std::chrono::seconds kAnswerTime{10};
constexpr std::chrono::seconds kTellEvery{10};

// The address of this host from which a packet to `chief` leaves, with a port that is free.
absl::StatusOr<Address> OwnAddress(const Address& chief) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(chief.host.c_str(), std::to_string(chief.port).c_str(), &hints, &found);
      error != 0) {
    return Unavailable("the host \"{}\" cannot be resolved: {}", chief.host, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
  const UniqueFd route(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (connect(route.get(), found->ai_addr, found->ai_addrlen) != 0) {
    return Unavailable("no route to {}", chief.ToString());
  }
  sockaddr_storage name;
  socklen_t size = sizeof name;
  char host[NI_MAXHOST];
  if (getsockname(route.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&name), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return Unavailable("no address of this host leads to {}", chief.ToString());
  }
  COHORT_ASSIGN_OR_RETURN(const std::vector<int> ports, ChooseFreePorts(1));
  return Address{host, ports.front()};
}

// Where the task will serve.
absl::StatusOr<Address> ServedAddress(const JoinOptions& options, const Address& chief) {
  if (options.bind.empty()) return OwnAddress(chief);
  COHORT_ASSIGN_OR_RETURN(Address bind, BindAddress(options.bind, Address{}));
  if (bind.port == 0) {
    return UsageError("--bind: \"{}\" has no port, and with --join it must have one", options.bind);
  }
  if (bind.host.empty() || bind.host == "0.0.0.0" || bind.host == "::") {
    COHORT_ASSIGN_OR_RETURN(const Address own, OwnAddress(chief));
    bind.host = own.host;
  }
  return bind;
}

// One question to one chief.
class Question : public StreamHandler {
 public:
  absl::StatusOr<v1::JoinAnswer> Ask(const std::string& chief, const JoinOptions& options,
                                     const v1::JoinRequest& request) {
    COHORT_ASSIGN_OR_RETURN(
        const auto client,
        StreamClient::Create(chief, {.security = options.security, .task = Task{Role::kChief, 0}}));
    CompletionLoop loop;
    const auto stream =
        client->Open("/cohort.v1.Chief/Join", this, &loop, {.wait_for_ready = false});
    stream->Send(SerializeToFrame(request));
    if (!loop.RunUntil([this] { return closed_; },
                       std::chrono::steady_clock::now() + kAnswerTime)) {
      stream->Abort();
      loop.RunUntil([this] { return closed_; }, TimePoint::max());
    }
    if (answered_) return answer_;
    if (absl::IsUnimplemented(end_)) {
      return InvalidArgument("it is another task, not a chief's --join_bind");
    }
    if (absl::IsPermissionDenied(end_) || absl::IsUnauthenticated(end_) ||
        absl::IsFailedPrecondition(end_)) {
      return end_;
    }
    return Unavailable("{}", std::string(end_.ok() ? "it has not answered" : end_.message()));
  }

  void OnFrame(Frame frame) override { answered_ = ParseFromFrame(frame, &answer_).ok(); }
  void OnClosed(const absl::Status& status) override {
    end_ = status;
    closed_ = true;
  }

 private:
  v1::JoinAnswer answer_;
  bool answered_ = false;
  bool closed_ = false;
  absl::Status end_;
};

// A chief that is starting, or whose places are taken, may take the task later.
bool MayHelpLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsCancelled(status);
}

std::string ConfigOf(const v1::JoinAnswer& answer, const Address& chief) {
  ClusterSpec cluster;
  cluster.Set({Role::kChief, 0}, chief);
  for (const v1::JoinedPeer& peer : answer.peers()) {
    const auto role = RoleFromName(peer.task().type());
    const auto address = ParseAddress(peer.address());
    if (role.has_value() && address.ok()) cluster.Set({*role, peer.task().index()}, *address);
  }
  return MakeTfConfig(cluster, {*RoleFromName(answer.task().type()), answer.task().index()});
}

}  // namespace

absl::StatusOr<std::string> JoinCluster(const JoinOptions& options) {
  std::vector<Address> chiefs;
  for (const std::string& text : std::vector<std::string>(absl::StrSplit(options.chiefs, ','))) {
    auto chief = ParseAddress(text);
    if (!chief.ok()) return WithExitCode(Annotate(chief.status(), "--join"), ExitCode::kUsage);
    chiefs.push_back(*std::move(chief));
  }
  const TimePoint begin = std::chrono::steady_clock::now();
  std::string told;
  Duration tell_at = kTellEvery;
  v1::JoinRequest request;
  request.set_role(std::string(RoleName(options.role)));
  SetProtocolVersion(&request);
  // By chief. A question that is asked again names the same one, and so gets the same place.
  std::vector<std::optional<Address>> own(chiefs.size());
  for (size_t turn = 0;; ++turn) {
    const Address& chief = chiefs[turn % chiefs.size()];
    const auto ask = [&]() -> absl::StatusOr<std::string> {
      std::optional<Address>& address = own[turn % chiefs.size()];
      if (!address.has_value()) {
        COHORT_ASSIGN_OR_RETURN(address, ServedAddress(options, chief));
      }
      request.set_address(address->ToString());
      Question question;
      COHORT_ASSIGN_OR_RETURN(const v1::JoinAnswer answer,
                              question.Ask(chief.ToString(), options, request));
      COHORT_RETURN_IF_ERROR(StatusFromProto(answer.status()));
      return ConfigOf(answer, chief);
    };
    absl::StatusOr<std::string> config = ask();
    if (config.ok()) return config;
    absl::Status why = Annotate(config.status(), "the chief at " + chief.ToString());
    if (!MayHelpLater(why)) {
      return ExitCodeOf(why) == ExitCode::kUsage ? why : WithExitCode(why, ExitCode::kConfig);
    }
    const Duration waited = std::chrono::steady_clock::now() - begin;
    const bool other = std::exchange(told, std::string(why.message())) != why.message();
    if (options.on_wait && (other || waited >= tell_at)) {
      options.on_wait(fmt::format("{:.0f} s: {}", ToSeconds(waited), told));
      tell_at = waited + kTellEvery;
    }
    const bool late = options.wait_s > 0 && waited >= FromSeconds(options.wait_s);
    if (late) {
      return WithExitCode(Unavailable("gave up after {} s: {}", options.wait_s, told),
                          ExitCode::kUnavailable);
    }
    if (!options.wait(kAskAgainAfter)) return Cancelled("ended while it waited to join: {}", told);
  }
}

}  // namespace cohort
