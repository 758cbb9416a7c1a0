// One rank of collective_processes_test, in a process of its own that the test kills or stops.
//
//   collective_test_peer SOCKET        prints "port N"
//
// Commands on standard input, and the answers:
//   group EPOCH RANK DEADLINE_MS SHARED PORT INCARNATION SOCKET [PORT INCARNATION SOCKET ...]
//     starts a group of these ranks: "ok", or "error CODE INDEX" with the index of FailureInfo
//   sum STEP ELEMENTS COUNT     COUNT reduce-scatters: "begun" after the first one; at the end
//     "ok", "error CODE INDEX", or "wrong values"
#include <cstdio>
#include <iostream>
#include <sstream>

#include "common/base/status.h"
#include "common/collective/collective_group.h"
#include "common/rpc/stream/grpc_tuning.h"

namespace cohort {
namespace {

class Peer {
 public:
  absl::Status Serve(const std::string& socket) {
    StreamServer::Options options;
    options.listen = {"127.0.0.1:0", "unix:" + socket};
    options.take_socket = service_.SocketTaker();
    COHORT_ASSIGN_OR_RETURN(server_, StreamServer::Start(options, service_.Methods()));
    return absl::OkStatus();
  }
  int port() const { return server_->port(); }

  std::string Answer(const std::string& line) {
    std::istringstream in(line);
    std::string command;
    in >> command;
    const absl::Status status = command == "group" ? StartGroup(&in) : Sum(&in);
    if (status.ok()) return "ok";
    if (absl::IsDataLoss(status)) return "wrong values";
    std::cerr << status << std::endl;
    const auto failure = GetFailure(status);
    return fmt::format("error {} {}", absl::StatusCodeToString(status.code()),
                       failure.has_value() ? failure->index : -1);
  }

 private:
  absl::Status StartGroup(std::istringstream* in) {
    group_ = nullptr;  // closes the streams of the old epoch
    CollectiveGroupOptions options;
    int deadline_ms = 0;
    int shared = 0;
    *in >> options.group.epoch >> options.rank >> deadline_ms >> shared;
    CollectiveRank rank;
    int port = 0;
    while (*in >> port >> rank.incarnation >> rank.unix_socket) {
      rank.address = fmt::format("127.0.0.1:{}", port);
      rank.host_id = shared != 0 ? "host" : fmt::format("host{}", options.ranks.size());
      rank.index = static_cast<int>(options.ranks.size());
      options.ranks.push_back(rank);
    }
    options.start_deadline = std::chrono::milliseconds(deadline_ms);
    options.deadline = options.start_deadline;
    COHORT_ASSIGN_OR_RETURN(group_, CollectiveGroup::Start(options, &service_));
    return absl::OkStatus();
  }

  absl::Status Sum(std::istringstream* in) {
    uint64_t step = 0;
    size_t elements = 0;
    int count = 0;
    *in >> step >> elements >> count;
    if (group_ == nullptr) return FailedPrecondition("no group");
    float expected = 0;
    for (int rank = 0; rank < group_->ranks(); ++rank) expected += static_cast<float>(rank + 1);
    std::vector<float> buffer(elements);
    std::vector<uint64_t> ends;
    const size_t ranks = static_cast<size_t>(group_->ranks());
    for (size_t rank = 1; rank <= ranks; ++rank) ends.push_back(elements * rank / ranks);
    for (int i = 0; i < count; ++i, ++step) {
      std::fill(buffer.begin(), buffer.end(), static_cast<float>(group_->rank() + 1));
      const ReduceScatterCall call{
          .name = {step, 1, 0}, .buffer = std::span(buffer), .part_ends = ends};
      COHORT_RETURN_IF_ERROR(group_->Begin(call));
      COHORT_RETURN_IF_ERROR(group_->Wait(call.name));
      const ElementRange own = call.part(group_->rank());
      for (uint64_t k = own.begin; k < own.end; ++k) {
        if (buffer[k] != expected) return DataLoss("a sum is {}", buffer[k]);
      }
      if (i == 0) std::cout << "begun" << std::endl;
    }
    return absl::OkStatus();
  }

  PeerService service_;
  std::unique_ptr<StreamServer> server_;
  std::unique_ptr<CollectiveGroup> group_;
};

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  cohort::PrepareTransportProcess();
  cohort::Peer peer;
  if (!peer.Serve(argv[1]).ok()) return 69;
  std::cout << "port " << peer.port() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << peer.Answer(line) << std::endl;
  }
  return 0;
}
