// The other process of stream_room_test: an echo server, or a client that holds a stream. The test
// kills it. This program links no override of gRPC's functions.
//   rpc_test_peer serve ADDRESS [TLS_DIR]   prints the port
//   rpc_test_peer dial ADDRESS [TLS_DIR]    prints "open" once its frame has come back
//   rpc_test_peer overrides -               prints which functions of gRPC are replaced
#include <cstdio>
#include <cstring>

#include "common/rpc/stream/grpc_tuning.h"
#include "common/rpc/stream/rpc_test_util.h"

int main(int argc, char** argv) {
  using namespace cohort;
  if (argc != 3 && argc != 4) return 64;
  const char* const method = argc == 4 ? kWorkersMethod : kEchoMethod;
  std::shared_ptr<const Security> security = Security::LoopbackOnly();
  if (argc == 4) {
    auto created = Security::Create({.tls_dir = argv[3]});
    if (!created.ok()) return 78;
    security = *std::move(created);
  }
  if (std::strcmp(argv[1], "serve") == 0) {
    StreamServer::Options options = ListenOn({argv[2]});
    options.security = security;
    auto server = StreamServer::Start(options, EchoMethods(nullptr, method));
    if (!server.ok()) return 69;
    std::printf("%d\n", (*server)->port());
    std::fflush(stdout);
    pause();
    return 0;
  }
  if (std::strcmp(argv[1], "overrides") == 0) {
    const GrpcTuning& tuning = PrepareTransportProcess();
    std::printf("executor %d, tls %d\n", tuning.executor_override, tuning.tls_override);
    return 0;
  }
  CompletionLoop loop;
  auto client = StreamClient::Create(argv[2], {.security = security});
  if (!client.ok()) return 69;
  Recorder recorder;
  const auto stream = (*client)->Open(method, &recorder, &loop);
  const std::string text(3 << 20, 'h');
  stream->Send(FrameOf(text));
  if (!loop.RunUntil([&] { return recorder.frame_count() > 0; }, TestDeadline())) return 69;
  if (recorder.frames()[0] != text) return 65;
  std::printf("open\n");
  std::fflush(stdout);
  loop.RunUntil([&] { return recorder.closed() > 0; }, CompletionLoop::kForever);
  return 0;
}
