#include "common/collective/peer_service.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "common/collective/accepted_streams.h"
#include "common/rpc/stream/rpc_test_util.h"
#include "common/rpc/stream/socket_stream.h"

namespace cohort {
namespace {

TEST_CASE("the name of a stream travels as text") {
  const PeerStreamName name{{1, 2, 3}, 4, UINT64_MAX, 6};
  const auto parsed = PeerStreamName::Parse(name.ToString());
  REQUIRE(parsed.has_value());
  CHECK(parsed->group == name.group);
  CHECK(parsed->rank == 4);
  CHECK(parsed->incarnation == UINT64_MAX);
  CHECK(parsed->target == 6);
  CHECK(!PeerStreamName::Parse("").has_value());
  CHECK(!PeerStreamName::Parse("1 2 3 4 5").has_value());
  CHECK(!PeerStreamName::Parse("1 2 3 x 5 6").has_value());
}

// A question is answered without the group's thread, and only with yes if this incarnation is in
// the group or may come.
TEST_CASE("a service answers whether its process takes part in a group") {
  PeerService service(/*incarnation=*/10);
  StreamServer::Options options = ListenOn({"127.0.0.1:0"});
  options.take_socket = service.SocketTaker();
  auto server = StreamServer::Start(options, service.Methods());
  REQUIRE(server.ok());
  const bool by_socket = GENERATE(true, false);
  SocketLoop sockets;
  CompletionLoop loop;
  auto client = StreamClient::Create((*server)->addresses()[0], {});
  REQUIRE(client.ok());
  const auto ask = [&](GroupId group, int rank, uint64_t incarnation, uint64_t target) {
    PeerStreamName name{group, rank, incarnation, target};
    name.asks = true;
    REQUIRE(PeerStreamName::Parse(name.ToString())->asks);
    Recorder recorder;
    if (by_socket) {
      const auto stream = SocketStream::Dial(&sockets, (*server)->addresses()[0],
                                             {.name = name.ToString(), .token = ""}, &recorder);
      while (recorder.closed() == 0 && sockets.PollOnce(TestDeadline())) {
      }
    } else {
      StreamClient::OpenOptions open;
      open.metadata[PeerStreamName::kKey] = name.ToString();
      const auto stream = (*client)->Open(PeerService::kMethod, &recorder, &loop, open);
      loop.RunUntil([&] { return recorder.closed() > 0; }, TestDeadline());
    }
    REQUIRE(recorder.closed() == 1);
    if (!recorder.status().ok()) CHECK(absl::IsUnavailable(recorder.status()));
    return recorder.status().ok();
  };
  CHECK(ask({1, 1, 5}, 1, 20, 10));  // it may come
  CHECK_FALSE(ask({1, 1, 5}, 1, 20, 11));
  const auto acceptor = std::make_shared<AcceptedStreams>(
      std::vector<uint64_t>{10, 20}, std::vector<int>{0, 1}, 0, [&] { loop.Wake(); });
  REQUIRE(service.Open({1, 1, 5}, acceptor).ok());
  CHECK(ask({1, 1, 5}, 1, 20, 10));
  CHECK(ask({1, 1, 6}, 1, 20, 10));
  CHECK_FALSE(ask({1, 1, 4}, 1, 20, 10));
  CHECK_FALSE(ask({1, 1, 5}, 1, 21, 10));  // not a member
  service.Close();
  CHECK_FALSE(ask({1, 1, 5}, 1, 20, 10));
  CHECK(service.refused() == 0);
  acceptor->Detach();
}

TEST_CASE("a service has one group at a time, and later ones are newer") {
  PeerService service;
  CompletionLoop loop;
  const auto acceptor = std::make_shared<AcceptedStreams>(
      std::vector<uint64_t>{1, 2}, std::vector<int>{0, 1}, 0, [&] { loop.Wake(); });
  REQUIRE(service.Open({1, 1, 5}, acceptor).ok());
  CHECK(absl::IsFailedPrecondition(service.Open({1, 1, 6}, acceptor)));
  service.Close();
  CHECK(absl::IsFailedPrecondition(service.Open({1, 1, 5}, acceptor)));
  CHECK(absl::IsFailedPrecondition(service.Open({1, 1, 4}, acceptor)));
  CHECK(absl::IsFailedPrecondition(service.Open({1, 0, 9}, acceptor)));
  CHECK(service.Open({1, 2, 0}, acceptor).ok());
  service.Close();
  acceptor->Detach();
}

// Only the incarnation that the group names may open a stream, for the incarnation that it means.
TEST_CASE("a stream that does not fit the group is refused and counted") {
  PeerService service;
  auto server = StreamServer::Start(ListenOn({"127.0.0.1:0"}), service.Methods());
  REQUIRE(server.ok());
  CompletionLoop loop;
  const auto acceptor = std::make_shared<AcceptedStreams>(
      std::vector<uint64_t>{10, 20}, std::vector<int>{0, 1}, 0, [&] { loop.Wake(); });
  const GroupId group{1, 1, 5};
  REQUIRE(service.Open(group, acceptor).ok());
  auto client = StreamClient::Create((*server)->addresses()[0], {});
  REQUIRE(client.ok());
  const auto accepts = [&](const std::string& text) {
    Recorder recorder;
    StreamClient::OpenOptions options;
    options.metadata[PeerStreamName::kKey] = text;
    const auto stream = (*client)->Open(PeerService::kMethod, &recorder, &loop, options);
    REQUIRE(
        loop.RunUntil([&] { return recorder.closed() > 0 || !acceptor->empty(); }, TestDeadline()));
    const bool accepted = !acceptor->empty();
    stream->Abort();
    REQUIRE(
        loop.RunUntil([&] { return recorder.closed() > 0 && acceptor->empty(); }, TestDeadline()));
    return accepted;
  };
  const auto name = [&](GroupId of, int rank, uint64_t incarnation, uint64_t target) {
    return PeerStreamName{of, rank, incarnation, target}.ToString();
  };
  CHECK(accepts(name(group, 1, 20, 10)));
  CHECK_FALSE(accepts(name({1, 1, 4}, 1, 20, 10)));
  CHECK_FALSE(accepts(name({0, 1, 5}, 1, 20, 10)));
  CHECK_FALSE(accepts(name(group, 1, 21, 10)));
  CHECK_FALSE(accepts(name(group, 1, 20, 11)));
  CHECK_FALSE(accepts(name(group, 0, 10, 10)));
  CHECK_FALSE(accepts(name(group, 2, 20, 10)));
  CHECK_FALSE(accepts("nonsense"));
  CHECK(service.refused() == 7);
  service.Close();
  CHECK_FALSE(accepts(name(group, 1, 20, 10)));
  acceptor->Detach();
}

TEST_CASE("while the thread of the group is busy, the newest sockets of each rank wait") {
  AcceptedStreams accepted({10, 20}, {0, 1}, 0, [] {});
  std::vector<UniqueFd> peers;
  const auto accept = [&](int rank) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    peers.emplace_back(ends[0]);
    accepted.AcceptSocket({{1, 1, 5}, rank, 20, 10}, UniqueFd(ends[1]));
  };
  for (int i = 0; i < 5; ++i) accept(1);
  for (int rank = 2; rank < 50; ++rank) accept(rank);  // they do not exist
  char byte = 0;
  for (size_t i = 0; i < 3; ++i) CHECK(recv(peers[i].get(), &byte, 1, MSG_DONTWAIT) == 0);
  for (size_t i = 3; i < 5; ++i) CHECK(recv(peers[i].get(), &byte, 1, MSG_DONTWAIT) < 0);
  CHECK(accepted.TakeSockets().size() == 4);
  CHECK(accepted.TakeSockets().empty());
}

TEST_CASE("a socket that does not fit the group is refused and counted") {
  PeerService service;
  StreamServer::Options options = ListenOn({"127.0.0.1:0"});
  options.take_socket = service.SocketTaker();
  auto server = StreamServer::Start(options, service.Methods());
  REQUIRE(server.ok());
  SocketLoop loop;
  const auto acceptor = std::make_shared<AcceptedStreams>(
      std::vector<uint64_t>{10, 20}, std::vector<int>{0, 1}, 0, [&] { loop.Wake(); });
  const GroupId group{1, 1, 5};
  REQUIRE(service.Open(group, acceptor).ok());
  const auto dial = [&](const std::string& name) {
    Recorder recorder;
    const auto stream =
        SocketStream::Dial(&loop, (*server)->addresses()[0], {.name = name}, &recorder);
    std::vector<AcceptedStreams::Socket> sockets;
    const auto deadline = TestDeadline();
    while (recorder.closed() == 0 && sockets.empty() && loop.PollOnce(deadline)) {
      if (acceptor->TakeChange()) sockets = acceptor->TakeSockets();
    }
    if (sockets.empty()) CHECK(absl::IsUnavailable(recorder.status()));
    stream->Abort();
    while (recorder.closed() == 0 && loop.PollOnce(deadline)) {
    }
    return sockets.size() == 1 && sockets[0].name.rank == 1;
  };
  CHECK(dial(PeerStreamName{group, 1, 20, 10}.ToString()));
  CHECK_FALSE(dial(PeerStreamName{{1, 1, 4}, 1, 20, 10}.ToString()));
  CHECK_FALSE(dial("nonsense"));
  CHECK(service.refused() == 2);
  service.Close();
  CHECK_FALSE(dial(PeerStreamName{group, 1, 20, 10}.ToString()));
  acceptor->Detach();
}

}  // namespace
}  // namespace cohort
