// One rank of the benchmark of all-reduce, in a process of its own.
//
//   collective_bench SOCKET     prints "port N"
//
// Commands on standard input, each answered by one line:
//   group RANK SHARED CHUNK_KB WINDOW_KB PORT SOCKET [PORT SOCKET ...]     starts a group of these ranks:
//     "ok"; 0 KB: the usual chunks or window
//   run BYTES COUNT COMMUNICATION     COUNT all-reduces of float32 after a few others: "SECONDS" of one
#include <cstdio>
#include <iostream>
#include <sstream>

#include "common/base/status.h"
#include "common/collective/collective_group.h"
#include "common/rpc/stream/transport_options.h"

namespace cohort {
namespace {

constexpr int kWarmUp = 3;

class Bench {
 public:
  absl::Status Serve(const std::string& socket) {
    StreamServer::Options options;
    options.listen = {"127.0.0.1:0", "unix:" + socket};
    options.take_socket = service_.SocketTaker();
    COHORT_ASSIGN_OR_RETURN(server_, StreamServer::Start(options, service_.Methods()));
    return absl::OkStatus();
  }
  int port() const { return server_->port(); }

  absl::StatusOr<std::string> Answer(const std::string& line) {
    std::istringstream in(line);
    std::string command;
    in >> command;
    if (command == "run") return Run(&in);
    COHORT_RETURN_IF_ERROR(StartGroup(&in));
    return "ok";
  }

 private:
  absl::Status StartGroup(std::istringstream* in) {
    CollectiveGroupOptions options;
    int shared = 0;
    uint64_t chunk_kb = 0;
    uint64_t window_kb = 0;
    *in >> options.rank >> shared >> chunk_kb >> window_kb;
    if (chunk_kb != 0) options.chunk_bytes = chunk_kb << 10;
    if (window_kb != 0) options.window_bytes = window_kb << 10;
    options.group.epoch = ++epoch_;
    CollectiveRank rank;
    int port = 0;
    while (*in >> port >> rank.unix_socket) {
      rank.address = fmt::format("127.0.0.1:{}", port);
      rank.host_id = shared != 0 ? "host" : fmt::format("host{}", options.ranks.size());
      rank.index = static_cast<int>(options.ranks.size());
      rank.incarnation = options.ranks.size() + 1;
      options.ranks.push_back(rank);
    }
    COHORT_ASSIGN_OR_RETURN(group_, CollectiveGroup::Start(options, &service_));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Run(std::istringstream* in) {
    size_t bytes = 0;
    int count = 0;
    std::string name;
    *in >> bytes >> count >> name;
    const auto communication = CommunicationFromName(name);
    if (group_ == nullptr || !communication.has_value()) return InvalidArgument("{}", in->str());
    if (buffer_.size() != bytes / 4) buffer_.assign(bytes / 4, 1.0f);
    std::fill(buffer_.begin(), buffer_.end(), 0.0f);  // sums stay finite
    auto begin = std::chrono::steady_clock::now();
    for (int i = -kWarmUp; i < count; ++i) {
      if (i == 0) begin = std::chrono::steady_clock::now();
      COHORT_RETURN_IF_ERROR(group_->Run({.kind = CollectiveKind::kAllReduce,
                                          .name = {++step_, 1, 0},
                                          .buffer = std::span(buffer_),
                                          .communication = *communication}));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return fmt::format("{:.9f}", took.count() / count);
  }

  PeerService service_;
  std::unique_ptr<StreamServer> server_;
  std::unique_ptr<CollectiveGroup> group_;
  uint64_t epoch_ = 0;
  uint64_t step_ = 0;
  std::vector<float> buffer_;
};

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  cohort::PrepareTransportProcess();
  cohort::Bench bench;
  const absl::Status served = bench.Serve(argv[1]);
  if (!served.ok()) {
    std::cerr << served << std::endl;
    return 69;
  }
  std::cout << "port " << bench.port() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto answer = bench.Answer(line);
    if (!answer.ok()) std::cerr << answer.status() << std::endl;
    std::cout << (answer.ok() ? *answer : "error") << std::endl;
  }
  return 0;
}
