#include "chief/api/join_service.h"

#include <limits>
#include <utility>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/cluster/address.h"
#include "common/cluster/protocol_version.h"

namespace cohort {

class JoinService::Handler : public StreamHandler {
 public:
  Handler(const JoinService* owner, std::shared_ptr<Stream> stream)
      : owner_(owner), stream_(std::move(stream)) {}

  void OnFrame(Frame frame) override {
    v1::JoinRequest request;
    if (absl::Status status = ParseFromFrame(frame, &request); !status.ok()) {
      return stream_->Close(std::move(status));
    }
    stream_->Send(SerializeToFrame(owner_->Answer(request, *stream_)));
    stream_->Close(absl::OkStatus());
  }
  void OnClosed(const absl::Status&) override {}

 private:
  const JoinService* const owner_;
  const std::shared_ptr<Stream> stream_;
};

absl::StatusOr<std::unique_ptr<JoinService>> JoinService::Start(Options options) {
  std::unique_ptr<JoinService> service(new JoinService(std::move(options)));
  StreamServer::Options server;
  server.listen = {service->options_.listen};
  server.security = service->options_.security;
  server.thread_name = "join";
  StreamServer::Methods methods;
  methods["/cohort.v1.Chief/Join"] = [s = service.get()](std::shared_ptr<Stream> stream,
                                                         CompletionLoop*) {
    return std::make_unique<Handler>(s, std::move(stream));
  };
  COHORT_ASSIGN_OR_RETURN(service->server_, StreamServer::Start(server, std::move(methods)));
  service->options_.log->Info("accepts_tasks", {{"address", service->server_->addresses()[0]}});
  return service;
}

v1::JoinAnswer JoinService::Answer(const v1::JoinRequest& request, const Stream& stream) const {
  const auto join = [&]() -> absl::StatusOr<Task> {
    COHORT_RETURN_IF_ERROR(
        CheckProtocol(fmt::format("the {} at {}", request.role(), request.address()),
                      ProtocolVersion::Of(request), "this chief"));
    const std::optional<Role> role = RoleFromName(request.role());
    if (role != Role::kWorker) {
      return InvalidArgument("a {} cannot join: only workers do", request.role());
    }
    COHORT_RETURN_IF_ERROR(
        Annotate(ParseAddress(request.address()).status(), "the address that the task serves at"));
    // A place may have any index, so the certificate must be one for all of them.
    COHORT_RETURN_IF_ERROR(Annotate(
        stream.CheckClaim({*role, std::numeric_limits<int>::max()}),
        fmt::format("a {} that joins needs a certificate of its role without an index (`cohort "
                    "certs --by_role`)",
                    request.role())));
    return options_.join(*role, request.address());
  };
  v1::JoinAnswer answer;
  const absl::StatusOr<Task> task = join();
  StatusToProto(task.status(), answer.mutable_status());
  if (!task.ok()) {
    options_.log->Failure(LogLevel::kWarning, "join_refused", task.status());
    return answer;
  }
  answer.mutable_task()->set_type(std::string(RoleName(task->role)));
  answer.mutable_task()->set_index(task->index);
  const ClusterSpec peers = options_.peers();
  for (const Task peer : peers.AllTasks()) {
    v1::JoinedPeer* const out = answer.add_peers();
    out->mutable_task()->set_type(std::string(RoleName(peer.role)));
    out->mutable_task()->set_index(peer.index);
    out->set_address(peers.Find(peer)->ToString());
  }
  return answer;
}

}  // namespace cohort
