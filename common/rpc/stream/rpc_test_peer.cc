// The other process of stream_room_test: an echo server, or a client that holds a stream. The test
// kills it.
//   rpc_test_peer serve ADDRESS   prints the port
//   rpc_test_peer dial ADDRESS    prints "open" once its frame has come back
//   rpc_test_peer executor -      prints whose executor answers: this program links no override
#include <cstdio>
#include <cstring>

#include "common/rpc/stream/grpc_tuning.h"
#include "common/rpc/stream/rpc_test_util.h"

int main(int argc, char** argv) {
  using namespace cohort;
  if (argc != 3) return 64;
  if (std::strcmp(argv[1], "serve") == 0) {
    auto server = StreamServer::Start(ListenOn({argv[2]}), EchoMethods());
    if (!server.ok()) return 69;
    std::printf("%d\n", (*server)->port());
    std::fflush(stdout);
    pause();
    return 0;
  }
  if (std::strcmp(argv[1], "executor") == 0) {
    std::printf("%s\n", PrepareTransportProcess().executor_override ? "ours" : "gRPC's");
    return 0;
  }
  CompletionLoop loop;
  auto client = StreamClient::Create(argv[2], {});
  if (!client.ok()) return 69;
  Recorder recorder;
  const auto stream = (*client)->Open(kEchoMethod, &recorder, &loop);
  stream->Send(FrameOf("hello"));
  if (!loop.RunUntil([&] { return recorder.frame_count() > 0; }, TestDeadline())) return 69;
  std::printf("open\n");
  std::fflush(stdout);
  loop.RunUntil([&] { return recorder.closed() > 0; }, CompletionLoop::kForever);
  return 0;
}
