#include "common/collective/collective_group.h"

#include <cstring>
#include <future>
#include <latch>
#include <random>

#include "common/collective/collective_test_util.h"
#include "common/rpc/stream/frame.h"
#include "common/testing/status_test_util.h"
#include "proto/collective.pb.h"

namespace cohort {
namespace {

// Small chunks and windows, so that small buffers reach every limit.
CollectiveGroupOptions SmallLimits() {
  CollectiveGroupOptions options;
  options.chunk_bytes = 5000;
  options.early_bytes = 12'500;
  options.window_bytes = 30'000;
  return options;
}

template <typename T>
void CheckSizes(TestRanks* test, CollectiveGroup* group, uint64_t* step) {
  const int ranks = group->ranks();
  for (const size_t elements : {size_t{0}, size_t{1}, size_t{101}, size_t{4999}, size_t{70'001}}) {
    std::vector<uint64_t> ends = EqualParts(ranks, elements);
    for (const bool equal : {true, false}) {
      // The second time the first rank owns nothing, and the last one most.
      if (!equal) std::fill(ends.begin(), ends.end() - 1, elements / 5);
      if (!equal && ranks > 1) ends[0] = 0;
      std::vector<T> buffer = TestBuffer<T>(group->rank(), elements);
      const std::string what = fmt::format("{} elements, equal parts: {}", elements, equal);
      test->ExpectOk(Sum(group, {++*step, 1, 0}, std::span(buffer), ends), what);
      test->Expect(HasSums<T>(*group, buffer, ends), "other values: " + what);
    }
  }
}

TEST_CASE("ranks over TCP and over shared memory have the sums") {
  for (const TestPath path : {TestPath::kSockets, TestPath::kGrpc, TestPath::kSharedMemory}) {
    const bool shared = path == TestPath::kSharedMemory;
    for (const int ranks : {1, 2, 3, 4, 7}) {
      INFO("path " << static_cast<int>(path) << ", ranks " << ranks);
      TestRanks test(ranks, path);
      std::atomic<int64_t> balance{0};  // bytes that were sent and not received
      test.Run(
          1,
          [&](CollectiveGroup* group) {
            uint64_t step = 0;
            CheckSizes<float>(&test, group, &step);
            CheckSizes<double>(&test, group, &step);
            const CollectiveCounters counters = group->counters();
            test.Expect((counters.bytes_shared > 0) == (shared && ranks > 1), "bytes_shared");
            test.Expect(counters.frames_dropped == 0, "frames were dropped");
            balance += static_cast<int64_t>(counters.bytes_sent);
            balance -= static_cast<int64_t>(counters.bytes_received);
          },
          SmallLimits());
      CHECK(balance == 0);
    }
  }
}

TEST_CASE("large buffers with the usual limits") {
  const TestPath path = GENERATE(TestPath::kSockets, TestPath::kGrpc, TestPath::kSharedMemory);
  TestRanks test(2, path);
  constexpr size_t kElements = 3'000'017;
  const std::vector<uint64_t> ends = EqualParts(2, kElements);
  test.Run(1, [&](CollectiveGroup* group) {
    for (uint64_t step = 1; step <= 3; ++step) {
      std::vector<float> buffer = TestBuffer<float>(group->rank(), kElements);
      test.ExpectOk(Sum(group, {step, 1, 0}, std::span(buffer), ends), "sum");
      test.Expect(HasSums<float>(*group, buffer, ends), "other values");
    }
  });
}

// The first rank has nothing to receive here, and more to send than the sockets take.
TEST_CASE("a rank that has finished leaves nothing behind that only it can send") {
  const TestPath path = GENERATE(TestPath::kSockets, TestPath::kGrpc);
  TestRanks test(2, path);
  constexpr size_t kElements = 8'000'000;
  CollectiveGroupOptions limits;
  limits.chunk_bytes = 32 << 10;
  limits.early_bytes = limits.window_bytes = kElements * sizeof(float);
  std::promise<void> sent;
  std::promise<void> finished;
  test.Run(
      1,
      [&](CollectiveGroup* group) {
        const bool receives = group->rank() == 1;
        if (receives) sent.get_future().wait();  // and reads nothing meanwhile
        std::vector<float> buffer(kElements, 1);
        const uint64_t part_ends[] = {0, kElements};
        test.ExpectOk(
            group->Begin({.name = {1, 1, 0}, .buffer = std::span(buffer), .part_ends = part_ends}),
            "begin");
        if (!receives) sent.set_value();
        test.ExpectOk(group->Wait({1, 1, 0}), "wait");
        if (!receives) return finished.get_future().wait();  // and polls no more
        test.Expect(buffer == std::vector<float>(kElements, 2), "other values");
        finished.set_value();
      },
      limits);
}

TEST_CASE("several buckets in flight, awaited in any order") {
  const TestPath path = GENERATE(TestPath::kSockets, TestPath::kGrpc, TestPath::kSharedMemory);
  // With the usual limits in shared memory, more chunks are under way than there are cells.
  const bool usual = GENERATE(false, true);
  const size_t elements = usual ? 900'001 : 20'011;
  TestRanks test(3, path);
  constexpr uint32_t kBuckets = 8;
  const std::vector<uint64_t> ends = EqualParts(3, elements);
  test.Run(
      1,
      [&](CollectiveGroup* group) {
        for (uint64_t step = 1; step <= (usual ? 3 : 20); ++step) {
          std::vector<std::vector<float>> buffers(kBuckets,
                                                  TestBuffer<float>(group->rank(), elements));
          for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
            test.ExpectOk(group->Begin({.name = {step, 1, bucket},
                                        .buffer = std::span(buffers[bucket]),
                                        .part_ends = ends}),
                          "begin");
          }
          for (uint32_t i = 0; i < kBuckets; ++i) {
            const uint32_t bucket =
                (i * 3 + static_cast<uint32_t>(group->rank())) % kBuckets;  // 3 and 8 are coprime
            test.ExpectOk(group->Wait({step, 1, bucket}), "wait");
            test.Expect(HasSums<float>(*group, buffers[bucket], ends), "other values");
          }
        }
      },
      usual ? CollectiveGroupOptions() : SmallLimits());
}

// Other ranks of a group wait for one that computes as long as its process answers. Processes that
// do not are in collective_processes_test.cc.
TEST_CASE("a rank that computes for several deadlines does not fail the group") {
  TestRanks test(3, GENERATE(TestPath::kSockets, TestPath::kGrpc, TestPath::kSharedMemory));
  const std::vector<uint64_t> ends = EqualParts(3, 50'000);
  CollectiveGroupOptions limits;
  limits.deadline = testing::Scaled(std::chrono::milliseconds(200));
  test.Run(
      1,
      [&](CollectiveGroup* group) {
        std::vector<float> buffer = TestBuffer<float>(group->rank(), 50'000);
        for (uint64_t step = 1; step <= 2; ++step) {
          if (group->rank() == 1) std::this_thread::sleep_for(4 * limits.deadline);
          buffer = TestBuffer<float>(group->rank(), 50'000);
          test.ExpectOk(Sum(group, {step, 1, 0}, std::span(buffer), ends), "sum");
          test.Expect(HasSums<float>(*group, buffer, ends), "values");
        }
      },
      limits);
}

TEST_CASE("a rank that computes for several deadlines before it enters the group is waited for") {
  TestRanks test(2, GENERATE(TestPath::kSockets, TestPath::kGrpc));
  const Duration deadline = testing::Scaled(std::chrono::milliseconds(200));
  // Both stay until both have started: a rank that leaves fails the other one.
  absl::StatusOr<std::unique_ptr<CollectiveGroup>> started[2];
  const auto start = [&](int rank) {
    CollectiveGroupOptions options = test.Options(rank, 1);
    if (rank == 0) options.start_deadline = deadline;
    started[rank] = CollectiveGroup::Start(options, test.service(rank));
  };
  std::thread first([&] { start(0); });
  std::this_thread::sleep_for(4 * deadline);
  start(1);
  first.join();
  CHECK(started[0].status() == absl::OkStatus());
}

TEST_CASE("a rank that leaves fails those that wait for it") {
  TestRanks test(2, GENERATE(TestPath::kSockets, TestPath::kGrpc, TestPath::kSharedMemory));
  std::latch complete(2);
  test.Run(1, [&](CollectiveGroup* group) {
    complete.arrive_and_wait();
    if (group->rank() == 1) return;
    std::vector<float> buffer(100'000, 1);
    const absl::Status status =
        Sum(group, {1, 1, 0}, std::span(buffer), EqualParts(2, buffer.size()));
    test.Expect(absl::IsUnavailable(status), "status: " + status.ToString());
    test.Expect(GetFailure(status).has_value() && GetFailure(status)->index == 1,
                "failure: " + status.ToString());
  });
}

// Everything that it has to send was sent, so nobody waits for it.
TEST_CASE("a rank that has finished may leave while others are still busy") {
  TestRanks test(3, GENERATE(TestPath::kSockets, TestPath::kGrpc, TestPath::kSharedMemory));
  const std::vector<uint64_t> ends = EqualParts(3, 40'000);
  test.Run(1, [&](CollectiveGroup* group) {
    for (uint64_t step = 1; step <= 5; ++step) {
      std::vector<float> buffer = TestBuffer<float>(group->rank(), 40'000);
      test.ExpectOk(Sum(group, {step, 1, 0}, std::span(buffer), ends), "sum");
      test.Expect(HasSums<float>(*group, buffer, ends), "values");
    }
  });
}

TEST_CASE("a rank that leaves with an operation in flight gives it up") {
  TestRanks test(2, GENERATE(TestPath::kSockets, TestPath::kGrpc, TestPath::kSharedMemory));
  const std::vector<uint64_t> ends = EqualParts(2, 1'000'000);
  std::vector<float> given_up(1'000'000, 1);
  std::latch complete(2), begun(1);
  test.Run(1, [&](CollectiveGroup* group) {
    complete.arrive_and_wait();  // one that starts waits for all who are alive
    if (group->rank() == 0) {
      const ReduceScatterCall call{
          .name = {7, 1, 0}, .buffer = std::span(given_up), .part_ends = ends};
      test.ExpectOk(group->Begin(call), "begin");
      test.Expect(absl::IsAlreadyExists(group->Begin(call)), "begun twice");
      return begun.count_down();
    }
    begun.wait();  // so the other rank has sent only what may be early
    std::vector<float> buffer(1'000'000, 1);
    const absl::Status status = Sum(group, {7, 1, 0}, std::span(buffer), ends);
    test.Expect(!status.ok() && GetFailure(status)->index == 0, "status: " + status.ToString());
  });
}

TEST_CASE("ranks that disagree about an operation get an error") {
  TestRanks test(2, GENERATE(TestPath::kSockets, TestPath::kGrpc, TestPath::kSharedMemory));
  test.Run(1, [&](CollectiveGroup* group) {
    std::vector<float> buffer(group->rank() == 0 ? 1000 : 1001);
    const absl::Status status =
        Sum(group, {1, 1, 0}, std::span(buffer), EqualParts(2, buffer.size()));
    test.Expect(absl::IsInvalidArgument(status) || absl::IsUnavailable(status),
                "status: " + status.ToString());
    test.Expect(absl::IsInvalidArgument(group->Wait({1, 1, 77})), "an unknown operation");
  });
}

// A rank that sends over gRPC whatever the test wants.
class FakeRank {
 public:
  FakeRank() {
    auto server = StreamServer::Start(
        ListenOn({"127.0.0.1:0"}),
        {{PeerService::kMethod,
          [this](std::shared_ptr<Stream> stream,
                 CompletionLoop*) -> std::unique_ptr<StreamHandler> {
            const auto name = PeerStreamName::Parse(stream->metadata(PeerStreamName::kKey));
            if (name.has_value() && name->asks) return nullptr;
            stream->Send(SerializeToFrame(FrameOfKind(v1::HELLO)));
            out_.set_value(stream);
            return std::make_unique<EchoHandler>(std::move(stream), nullptr);
          }}});
    REQUIRE(server.ok());
    server_ = *std::move(server);
    loop_.Start("fake");
  }
  ~FakeRank() { loop_.Shutdown(); }

  CollectiveRank rank() const {
    return {.index = 1, .address = server_->addresses()[0], .host_id = "other", .incarnation = 9};
  }
  // Opens the stream to the real rank 0, again and again until its group is there.
  void Dial(const CollectiveRank& real) {
    auto client = StreamClient::Create(real.address, {});
    REQUIRE(client.ok());
    client_ = *std::move(client);
    options_.metadata[PeerStreamName::kKey] =
        PeerStreamName{{1, 1, 1}, 1, 9, real.incarnation}.ToString();
    client_->Open(PeerService::kMethod, &redialer_, &loop_, options_);
  }
  // The stream to the real rank, once that has dialed.
  std::shared_ptr<Stream> out() { return out_.get_future().get(); }

  static v1::CollectiveFrame FrameOfKind(v1::CollectiveFrameKind kind) {
    v1::CollectiveFrame frame;
    frame.mutable_header()->set_kind(kind);
    frame.mutable_header()->set_generation(1);
    frame.mutable_header()->set_timeline(1);
    frame.mutable_header()->set_epoch(1);
    frame.mutable_header()->set_rank(1);
    frame.mutable_header()->set_incarnation(9);
    return frame;
  }

 private:
  struct Redialer : public StreamHandler {
    explicit Redialer(FakeRank* owner) : owner(owner) {}
    void OnFrame(Frame) override {}
    void OnClosed(const absl::Status&) override {
      owner->loop_.After(std::chrono::milliseconds(5), [this] {
        owner->client_->Open(PeerService::kMethod, this, &owner->loop_, owner->options_);
      });
    }
    FakeRank* const owner;
  };

  CompletionLoop loop_;
  Redialer redialer_{this};
  std::promise<std::shared_ptr<Stream>> out_;
  std::unique_ptr<StreamServer> server_;
  std::unique_ptr<StreamClient> client_;
  StreamClient::OpenOptions options_;
};

// What the fake rank sends: it has the first half of the buffer.
v1::CollectiveFrame ChunkOf(std::span<const float> buffer, std::span<const uint64_t> ends,
                            const CollectiveGroupOptions& options) {
  v1::CollectiveFrame chunk = FakeRank::FrameOfKind(v1::CHUNK);
  v1::CollectiveHeader& header = *chunk.mutable_header();
  header.set_step(1);
  header.set_step_try(1);
  float* const data = const_cast<float*>(buffer.data());
  header.set_signature(
      SignatureOf({.name = {1, 1, 0}, .buffer = std::span(data, buffer.size()), .part_ends = ends},
                  options.chunk_bytes));
  header.set_count(5);
  chunk.set_payload(std::string(20, '\x41'));
  return chunk;
}

TEST_CASE("frames that do not fit are dropped and counted, and never written") {
  TestRanks test(1, TestPath::kGrpc);
  FakeRank fake;
  test.ranks().push_back(fake.rank());
  fake.Dial(test.ranks()[0]);
  CollectiveGroupOptions options = test.Options(0, 1);
  options.deadline = std::chrono::milliseconds(300);
  auto group = CollectiveGroup::Start(options, test.service(0));
  REQUIRE(group.ok());
  const std::shared_ptr<Stream> out = fake.out();
  std::vector<float> buffer(10, 1);
  const std::vector<uint64_t> ends = EqualParts(2, 10);
  const v1::CollectiveFrame chunk = ChunkOf(buffer, ends, options);
  REQUIRE(
      (*group)->Begin({.name = {1, 1, 0}, .buffer = std::span(buffer), .part_ends = ends}).ok());
  uint64_t sent = 0;
  const auto send = [&](const v1::CollectiveFrame& frame) {
    out->Send(SerializeToFrame(frame));
    ++sent;
  };
  out->Send(FrameOf("no message"));
  ++sent;
  for (int i = 0; i < 9; ++i) {
    v1::CollectiveFrame other = chunk;
    v1::CollectiveHeader& changed = *other.mutable_header();
    if (i == 0) changed.set_epoch(0);
    if (i == 1) changed.set_generation(2);
    if (i == 2) changed.set_timeline(0);
    if (i == 3) changed.set_rank(0);
    if (i == 4) changed.set_incarnation(8);
    if (i == 5) changed.set_shared_begin(64);  // there is no segment
    if (i == 6) changed.set_count(UINT64_MAX);
    if (i == 7) other.clear_payload();
    if (i == 8) changed.set_begin(UINT64_MAX - 2);  // its end is 3
    send(other);
  }
  send(FakeRank::FrameOfKind(static_cast<v1::CollectiveFrameKind>(77)));
  v1::CollectiveFrame release = FakeRank::FrameOfKind(v1::RELEASE);
  release.mutable_header()->set_shared_begin(64);
  send(release);
  const absl::Status status = (*group)->Wait({1, 1, 0});
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK((*group)->counters().frames_dropped == sent);
  CHECK((*group)->counters().bytes_received == 0);
  CHECK(buffer == std::vector<float>(10, 1));
}

// Whatever a peer sends: the group drops it, fails with an error that names the peer, or takes it
// for elements of the buffer.
TEST_CASE("mutated frames never crash a group") {
  std::mt19937 random(11);
  for (int round = 0; round < 25; ++round) {
    TestRanks test(1, TestPath::kGrpc);
    FakeRank fake;
    test.ranks().push_back(fake.rank());
    fake.Dial(test.ranks()[0]);
    CollectiveGroupOptions options = test.Options(0, 1);
    options.deadline = std::chrono::milliseconds(20);
    auto group = CollectiveGroup::Start(options, test.service(0));
    REQUIRE(group.ok());
    const std::shared_ptr<Stream> out = fake.out();
    std::vector<float> memory(30, 1);
    const std::span<float> buffer = std::span(memory).subspan(10, 10);
    const std::vector<uint64_t> ends = EqualParts(2, 10);
    REQUIRE((*group)->Begin({.name = {1, 1, 0}, .buffer = buffer, .part_ends = ends}).ok());
    const v1::CollectiveFrame chunk = ChunkOf(buffer, ends, options);
    const std::string good = chunk.SerializeAsString();
    for (int i = 0; i < 100; ++i) {
      std::string bytes = good;
      for (size_t flips = 1 + random() % 3; flips > 0; --flips) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      if (random() % 10 == 0) bytes.resize(random() % bytes.size());
      out->Send(FrameOf(bytes));
    }
    const absl::Status status = (*group)->Wait({1, 1, 0});
    CHECK((status.ok() || GetFailure(status)->index == 1));
    for (size_t i = 0; i < 10; ++i) {
      CHECK(memory[i] == 1);
      CHECK(memory[20 + i] == 1);
    }
  }
}

TEST_CASE("a rank that leaves before all are there ends the start of the others") {
  TestRanks test(2, TestPath::kGrpc);
  FakeRank fake;
  test.ranks()[1] = fake.rank();
  test.ranks()[1].index = 1;
  std::thread leaver([&] { fake.out()->Close(absl::OkStatus()); });
  const auto group = CollectiveGroup::Start(test.Options(0, 1), test.service(0));
  leaver.join();
  CHECK(absl::IsUnavailable(group.status()));
  REQUIRE(GetFailure(group.status()).has_value());
  CHECK(GetFailure(group.status())->index == 1);
}

TEST_CASE("a chunk that contradicts its operation fails the group and names its sender") {
  const int wrong = GENERATE(0, 1, 2, 3, 4, 5);
  TestRanks test(1, TestPath::kGrpc);
  FakeRank fake;
  test.ranks().push_back(fake.rank());
  fake.Dial(test.ranks()[0]);
  const CollectiveGroupOptions options = test.Options(0, 1);
  auto group = CollectiveGroup::Start(options, test.service(0));
  REQUIRE(group.ok());
  const std::shared_ptr<Stream> out = fake.out();
  std::vector<float> buffer(10, 1);
  const std::vector<uint64_t> ends = EqualParts(2, 10);
  v1::CollectiveFrame chunk = ChunkOf(buffer, ends, options);
  REQUIRE(
      (*group)->Begin({.name = {1, 1, 0}, .buffer = std::span(buffer), .part_ends = ends}).ok());
  v1::CollectiveHeader& header = *chunk.mutable_header();
  if (wrong == 0) header.set_signature(header.signature() + 1);
  if (wrong == 1) header.set_begin(6);  // it ends after the buffer
  if (wrong == 2) header.set_count(6);
  if (wrong == 3) header.set_begin(uint64_t{1} << 59);
  if (wrong == 4) chunk.set_payload(std::string(19, '\x41'));
  if (wrong == 5) header.set_count(0);
  out->Send(SerializeToFrame(chunk));
  const absl::Status status = (*group)->Wait({1, 1, 0});
  CHECK(absl::IsInvalidArgument(status));
  REQUIRE(GetFailure(status).has_value());
  CHECK(GetFailure(status)->index == 1);
  CHECK(GetFailure(status)->incarnation == 9);
  CHECK(buffer == std::vector<float>(10, 1));
}

TEST_CASE("a call that contradicts itself is refused") {
  std::vector<float> buffer(4);
  const std::vector<uint64_t> wrong[] = {{4}, {3, 2, 4}, {1, 2, 3}};
  for (const std::vector<uint64_t>& ends : wrong) {
    CHECK(absl::IsInvalidArgument(
        CheckCall({.name = {}, .buffer = std::span(buffer), .part_ends = ends}, 3)));
  }
  std::vector<int32_t> numbers(8);
  const uint64_t ends[] = {4, 8};
  CHECK(absl::IsInvalidArgument(
      CheckCall({.name = {}, .buffer = {DType::kInt32, numbers.data(), 8}, .part_ends = ends}, 2)));
}

TEST_CASE("a group that is not complete names who is missing") {
  TestRanks test(3, TestPath::kSockets);
  CollectiveGroupOptions options = test.Options(0, 1);
  options.start_deadline = std::chrono::milliseconds(300);
  test.StopServing(1);
  test.StopServing(2);
  const auto group = CollectiveGroup::Start(options, test.service(0));
  CHECK(absl::IsDeadlineExceeded(group.status()));
  CHECK_THAT(testing::Message(group.status()), Catch::Contains("rank 1, worker:1"));
  CHECK_THAT(testing::Message(group.status()), Catch::Contains("rank 2, worker:2"));
  REQUIRE(GetFailure(group.status()).has_value());
  CHECK(GetFailure(group.status())->index == 1);
  // The same epoch cannot start again.
  CHECK(absl::IsFailedPrecondition(CollectiveGroup::Start(options, test.service(0)).status()));
}

TEST_CASE("options that contradict themselves are refused") {
  TestRanks test(2, TestPath::kSockets);
  CollectiveGroupOptions options = test.Options(0, 1);
  options.rank = 2;
  CHECK(absl::IsInvalidArgument(CollectiveGroup::Start(options, test.service(0)).status()));
  options = test.Options(0, 1);
  options.ranks[1].incarnation = 0;
  CHECK(absl::IsInvalidArgument(CollectiveGroup::Start(options, test.service(0)).status()));
  options = test.Options(0, 1);
  options.window_bytes = 1;
  CHECK(absl::IsInvalidArgument(CollectiveGroup::Start(options, test.service(0)).status()));
}

}  // namespace
}  // namespace cohort
