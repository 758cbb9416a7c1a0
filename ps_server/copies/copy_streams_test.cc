// The log of a primary on its way to another server.
#include "ps_server/copies/copy_streams.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/base/clock.h"
#include "common/cluster/protocol_version.h"
#include "common/rpc/stream/stream_server.h"
#include "common/testing/time_test_util.h"
#include "ps_server/copies/copy_receiver.h"
#include "ps_server/core_test_util.h"

namespace cohort::ps_test::copy_streams {
namespace {

CompletionLoop::Clock::time_point Deadline() {
  return CompletionLoop::Clock::now() + testing::Scaled(std::chrono::seconds(30));
}

// A server that has no copies, so each entry that it can read gets an error that names the tablet.
class OtherServer {
 public:
  OtherServer() {
    StreamServer::Options listen;
    listen.listen = {"unix:" + path_};
    auto server = StreamServer::Start(
        listen, {{kCopyMethod, [this](std::shared_ptr<Stream> stream, CompletionLoop*) {
                    Note(stream->metadata(kProtocolVersionKey));
                    return std::make_unique<CopyReceiver>(core_.core.get(), &counters_,
                                                          std::move(stream));
                  }}});
    REQUIRE(server.ok());
    server_ = *std::move(server);
  }
  ~OtherServer() {
    Stop();
    unlink(path_.c_str());
  }
  void Stop() { server_ = nullptr; }
  const std::string& path() const { return path_; }
  std::vector<CompletionLoop*> loops() const { return server_->loops(); }
  // What the newest stream has named as the version of its frames.
  std::string version() {
    MutexLock lock(&mu_);
    return version_;
  }

 private:
  void Note(std::string version) {
    MutexLock lock(&mu_);
    version_ = std::move(version);
  }

  const std::string path_ = fmt::format("/tmp/cohort-copies-{}.sock", getpid());
  TestCore core_;
  CodecCounters counters_;
  Mutex mu_;
  std::string version_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<StreamServer> server_;
};

// What a primary hears about its copies. The loops of the other server poll for it.
class Primary {
 public:
  explicit Primary(OtherServer* other)
      : other_(other),
        copies_({}, {.clock = &clock_,
                     .pool = pool_.get(),
                     .transport = &streams_,
                     .acknowledged = [] {},
                     .ended = [] {},
                     .complete = [](const CopyLog&) {},
                     .lost = [this](const CopyLog&, const absl::Status& why) { Hear(why); }}) {
    streams_.Start(&copies_, other_->loops());
  }
  ~Primary() {
    streams_.Stop();
    other_->Stop();
  }

  // `requests`: PsRoute.copy_requests.
  std::shared_ptr<CopyLog> LogOf(uint32_t tablet, bool requests) {
    v1::TabletHome home;
    home.set_tablet(tablet);
    home.set_term(1);
    home.mutable_copy_route()->set_unix_socket(other_->path());
    home.mutable_copy_route()->set_host_id("host");
    home.mutable_copy_route()->set_copy_requests(requests);
    return copies_.LogFor(home, 1);
  }
  bool Hears(const std::string& what) {
    const auto deadline = Deadline();
    MutexLock lock(&mu_);
    while (heard_.find(what) == std::string::npos) {
      if (!changed_.WaitUntil(&mu_, deadline)) return false;
    }
    return true;
  }

 private:
  void Hear(const absl::Status& why) {
    MutexLock lock(&mu_);
    heard_ += std::string(why.message()) + "\n";
    changed_.SignalAll();
  }

  OtherServer* const other_;
  RealClock clock_;
  BufferPool::Handle pool_ = BufferPool::Create(size_t{16} << 20);
  CopyStreams streams_{Security::LoopbackOnly(), "host"};
  Mutex mu_;
  CondVar changed_;
  std::string heard_ ABSL_GUARDED_BY(mu_);
  Copies copies_;
};

TEST_CASE("entries with a push, with a large one and without one are read") {
  const bool requests = GENERATE(true, false);
  OtherServer other;
  Primary primary(&other);
  const std::vector<float> large(400'000, 1);
  TestPush pushes[] = {TestPush(1), TestPush(2)};
  pushes[0].Dense<float>(0, {1, 2}).RecordOnly(1).Sparse<float>(2, {3}, {4, 5});
  for (uint32_t shard = 0; shard < 4; ++shard) pushes[1].Dense(shard, large);
  for (uint32_t tablet : {0u, 1u, 2u}) {
    const std::shared_ptr<CopyLog> log = primary.LogOf(tablet, requests);
    REQUIRE(log != nullptr);
    if (tablet < 2) {
      pushes[tablet].section().tablet = tablet;
      log->OnPush(0, pushes[tablet].header(), pushes[tablet].section());
    } else {
      log->OnAbandon(1, 1);
    }
    log->Flush();
    CHECK(primary.Hears(fmt::format("there is no copy of tablet {} here", tablet)));
    CHECK(other.version() == (requests ? kProtocolVersion : kCopiesProtocol).ToString());
  }
}

struct Closed : StreamHandler {
  void OnFrame(Frame frame) override { CHECK(ParseFromFrame(frame, &acks.emplace_back()).ok()); }
  void OnClosed(const absl::Status& status) override { end = status; }
  std::vector<v1::CopyAck> acks;
  std::optional<absl::Status> end;
};

TEST_CASE("frames of version 2.6 are read, and an entry alone is not answered before its payload") {
  OtherServer other;
  Closed closed;  // outlives the stream, which ends with the loop
  CompletionLoop loop;
  const auto client = StreamClient::Create("unix:" + other.path(), {});
  REQUIRE(client.ok());
  StreamClient::OpenOptions open;
  open.metadata[kProtocolVersionKey] = "2.6";
  const auto stream = (*client)->Open(kCopyMethod, &closed, &loop, open);
  const auto names = [&](size_t ack, uint32_t tablet) {
    return closed.acks[ack].error().message().find(fmt::format("tablet {} ", tablet)) !=
           std::string::npos;
  };
  v1::CopyEntry piece, cut;
  piece.set_tablet(1);
  piece.mutable_state()->set_number(1);
  cut.set_tablet(2);
  cut.mutable_state()->mutable_cut();
  v1::PushPullRequest payload;
  payload.add_payload(std::string(64, 'x'));
  stream->Send(SerializeToFrame(piece));
  stream->Send(SerializeToFrame(payload));
  stream->Send(SerializeToFrame(cut));
  REQUIRE(loop.RunUntil([&] { return closed.acks.size() == 2; }, Deadline()));
  CHECK((names(0, 1) && names(1, 2)));
}

TEST_CASE("frames that are no entry end their stream") {
  OtherServer other;
  v1::PushPullRequest request;
  std::string what;
  SECTION("no entry") { what = "without its entry"; }
  SECTION("not an entry") {
    request.add_payload("\xff");
    what = "no CopyEntry";
  }
  SECTION("a push without its payload") {
    v1::CopyEntry entry;
    entry.set_push(true);
    request.add_payload(entry.SerializeAsString());
    what = "without a payload";
  }
  CompletionLoop loop;
  Closed closed;
  const auto client = StreamClient::Create("unix:" + other.path(), {});
  REQUIRE(client.ok());
  const auto stream = (*client)->Open(kCopyMethod, &closed, &loop);
  stream->Send(SerializeToFrame(request));
  REQUIRE(loop.RunUntil([&] { return closed.end.has_value(); }, Deadline()));
  CHECK(absl::IsInvalidArgument(*closed.end));
  CHECK_THAT(std::string(closed.end->message()), Catch::Contains(what));
}

}  // namespace
}  // namespace cohort::ps_test::copy_streams
