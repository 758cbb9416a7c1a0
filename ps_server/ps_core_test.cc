#include "ps_server/ps_core.h"

#include <atomic>
#include <limits>
#include <thread>

#include "common/base/crash_point.h"
#include "common/base/status_proto.h"
#include "common/cluster/protocol_version.h"
#include "ps_server/core_test_util.h"

namespace cohort::ps_test {
namespace {

using Floats = std::vector<float>;

v1::Layout SmallLayout() { return Layout({Variable("w", {2}, 5)}, Sgd(1)); }

// Adopted by generation 1 on connection 1, and serving SmallLayout.
void SetUp(TestCore* ps) {
  ps->Adopt(1, 1);
  ps->Assign(1, SmallLayout());
  ps->RunBackground();
  REQUIRE(ps->Last(1).has_assigned());
}

TEST_CASE("a server that has nothing serves nothing") {
  TestCore ps;
  CHECK(ps.Push(0, 0, 1, {1, 1}).status() == v1::MOVED);
  ps.Pull(0, 0);
  CHECK(ps.pull_status == v1::MOVED);
  const auto hello = ps.Adopt(1, 1).hello();
  CHECK(hello.job().empty());
  CHECK(hello.tablets_size() == 0);
  CHECK(hello.task().type() == "ps");
  CHECK(hello.cores() == 2);
  ps.Assign(1, SmallLayout());
  // Still being made.
  CHECK(ps.Push(0, 0, 1, {1, 1}).status() == v1::MOVED);
  ps.RunBackground();
  const auto assigned = ps.Last(1);
  CHECK(assigned.request() == ps.request);
  CHECK(assigned.assigned().tablets_size() == 1);
  CHECK(ps.Pull(0, 0) == Floats{5, 5});
  CHECK(ps.Adopt(1, 1).hello().job() == "job");
}

TEST_CASE("a probe takes nothing over; a second chief learns of the first") {
  TestCore ps;
  SetUp(&ps);
  const auto hello = ps.Adopt(2, 0, /*incarnation=*/8, /*probe=*/true).hello();
  CHECK(hello.hears_chief());
  CHECK(!hello.chief_lost());
  CHECK(hello.heard_generation() == 1);
  CHECK(hello.timeline() == 1);
  // The chief itself, on a new connection, is no other.
  CHECK(!ps.Adopt(3, 1, 7, true).hello().hears_chief());
  CHECK(ps.core->chief_connected());

  ps.core->OnClosed(1, ChiefLoss::kClosed);
  CHECK(!ps.Adopt(2, 0, 8, true).hello().hears_chief());
  CHECK(!ps.core->chief_connected());
}

TEST_CASE("a chief that was lost without a sign is heard for chief_timeout") {
  TestCore ps;
  SetUp(&ps);
  ps.core->OnClosed(1, ChiefLoss::kSilent);
  ps.clock.Advance(std::chrono::seconds(9));
  const auto hello = ps.Adopt(2, 0, 8, true).hello();
  CHECK(hello.hears_chief());
  CHECK(hello.chief_lost());
  CHECK(!ps.Adopt(2, 0, 7, true).hello().hears_chief());
  ps.clock.Advance(std::chrono::seconds(2));
  CHECK(!ps.Adopt(2, 0, 8, true).hello().hears_chief());
}

TEST_CASE("a newer generation takes over, the older one is fenced in everything") {
  TestCore ps;
  SetUp(&ps);
  CHECK(ps.Push(0, 0, 1, {1, 1}).status() == v1::APPLIED);
  CHECK(ps.Adopt(2, 2, 8).has_hello());
  // The server fences the old chief and ignores its messages.
  CHECK(ps.Last(1).fenced().current_generation() == 2);
  ps.Assign(1, SmallLayout(), 2);
  CHECK(ps.Last(1).has_fenced());
  CHECK(ps.background.empty());
  CHECK(ps.Adopt(1, 1).fenced().chief_incarnation() == 8);
  // It refuses the pushes of the old chief's workers too.
  CHECK(ps.Push(0, 0, 2, {1, 1}, 1, 1).status() == v1::FENCED);
  CHECK(ps.Push(0, 0, 2, {1, 1}, 1, 2).status() == v1::APPLIED);
  CHECK(ps.Pull(0, 0) == Floats{3, 3});
  // Nor another chief with the same generation, though the same one may come back.
  CHECK(ps.Adopt(3, 2, 9).has_fenced());
  CHECK(ps.Adopt(4, 2, 8).has_hello());
  CHECK(ps.Last(2).has_fenced());
}

TEST_CASE("only an adopted chief is obeyed") {
  TestCore ps;
  ps.Assign(1, SmallLayout());
  CHECK(ps.Last(1).has_fenced());
  ps.Adopt(1, 0, 7, /*probe=*/true);
  ps.Assign(1, SmallLayout());
  CHECK(ps.Last(1).has_fenced());
  CHECK(StatusFromProto(ps.Adopt(1, 0).status()).code() == absl::StatusCode::kInvalidArgument);
  v1::ChiefToPs ping;
  ping.mutable_ping()->set_sent_unix_micros(77);
  ps.core->OnMessage(1, ping);
  const v1::Pong pong = ps.Last(1).pong();
  CHECK(pong.sent_unix_micros() == 77);
  CHECK(pong.figures().pushes() == 3);
}

TEST_CASE("a chief of another major version is refused, and older and newer minor ones are not") {
  TestCore ps;
  CHECK(ProtocolVersion::Of(ps.Adopt(1, 1).hello()) == kProtocolVersion);  // the chief sends none
  v1::ChiefToPs message;
  message.set_generation(2);
  message.mutable_adopt()->set_job("job");
  message.mutable_adopt()->set_checkpoint_dir(ps.checkpoint_dir);
  message.mutable_adopt()->set_directory_token(ps.directory_token);
  v1::ProtocolVersion* const version = message.mutable_adopt()->mutable_protocol_version();
  version->set_major(99);
  ps.core->OnMessage(2, message);
  const auto refused = ps.Last(2);
  CHECK_THAT(refused.status().message(),
             Catch::Contains("the chief speaks protocol 99.0, ps:0 speaks 2."));
  CHECK(ProtocolVersion::Of(refused.hello()) == kProtocolVersion);
  CHECK(refused.hello().heard_generation() == 1);
  version->set_major(kProtocolVersion.major);
  version->set_minor(99);
  ps.core->OnMessage(2, message);
  CHECK(ps.Last(2).hello().heard_generation() == 2);
}

TEST_CASE("wrong task, directory and server index are named") {
  TestCore ps;
  v1::ChiefToPs message;
  message.mutable_adopt()->set_probe(true);
  SetProtocolVersion(message.mutable_adopt());
  message.mutable_adopt()->mutable_expected()->set_type("ps");
  message.mutable_adopt()->mutable_expected()->set_index(3);
  message.mutable_adopt()->set_directory_token("token");
  message.mutable_adopt()->set_checkpoint_dir("/elsewhere");
  ps.core->OnMessage(1, message);
  auto answer = ps.Last(1);
  CHECK_THAT(answer.status().message(),
             Catch::Contains("takes this task for ps:3, but it is ps:0"));
  message.mutable_adopt()->clear_expected();
  ps.core->OnMessage(1, message);
  CHECK(!ps.Last(1).hello().sees_checkpoint_dir());
  message.mutable_adopt()->set_checkpoint_dir("/shared");
  ps.core->OnMessage(1, message);
  CHECK(ps.Last(1).hello().sees_checkpoint_dir());
  ps.Adopt(1, 1);
  ps.index = 1;
  ps.Assign(1, SmallLayout());
  CHECK_THAT(ps.Last(1).status().message(), Catch::Contains("tablets of ps:1 assigned to ps:0"));
}

TEST_CASE("a server works only for a chief whose checkpoint directory it sees") {
  TestCore ps;
  ps.directory_token = "";
  const v1::PsToChief answer = ps.Adopt(1, 1);
  CHECK(!answer.hello().sees_checkpoint_dir());
  CHECK(answer.hello().heard_generation() == 0);
  ps.directory_token = "token";
  CHECK(ps.Adopt(1, 1).hello().heard_generation() == 1);
}

TEST_CASE("a generation that is too far ahead is refused, and later chiefs are heard") {
  TestCore ps;
  constexpr uint64_t kLast = ~uint64_t{0};
  CHECK_THAT(ps.Adopt(1, kLast).status().message(), Catch::Contains("is out of range"));
  CHECK(ps.Adopt(1, 5).hello().heard_generation() == 5);
  for (const uint64_t generation : {kLast, 5 + kMostAhead + 1}) {
    CHECK_THAT(ps.Adopt(2, generation, 8).status().message(), Catch::Contains("the newest"));
  }
  CHECK(ps.Adopt(2, 6, 9).hello().heard_generation() == 6);
}

TEST_CASE("another job resets the server, unless the server still hears its chief") {
  TestCore ps;
  SetUp(&ps);
  CHECK(ps.Adopt(2, 1, 9, false, false, "other").has_fenced());
  CHECK(ps.core->serving());
  ps.core->OnClosed(1, ChiefLoss::kClosed);
  const auto hello = ps.Adopt(2, 1, 9, false, false, "other").hello();
  CHECK(hello.job().empty());
  CHECK(hello.heard_generation() == 1);
  CHECK(!ps.core->serving());
  // The user's word is stronger than a chief that is heard.
  CHECK(ps.Adopt(3, 1, 10, false, /*takeover=*/true, "third").has_hello());
}

TEST_CASE("a server is ready before its first tablets, and not while it makes them") {
  TestCore ps;
  ps.Adopt(1, 1);
  CHECK(ps.core->Readiness().empty());
  ps.Assign(1, SmallLayout());
  CHECK(ps.core->Readiness() == "making its tablets");
  ps.RunBackground();
  CHECK(ps.core->Readiness().empty());
  ps.Assign(1, SmallLayout(), 2, "/nowhere/ckpt-3");
  CHECK(ps.core->Readiness() == "restoring its tablets from /nowhere/ckpt-3");
  ps.Assign(1, SmallLayout(), 3);  // overtakes it
  ps.RunBackground();
  CHECK(ps.core->Readiness().empty());
  ps.Assign(1, SmallLayout(), 4, "/nowhere/ckpt-3");
  ps.RunBackground();  // it fails, and the chief hears why
  CHECK(ps.core->Readiness().empty());
}

TEST_CASE("an assignment that was overtaken is dropped") {
  TestCore ps;
  SetUp(&ps);
  ps.Assign(1, SmallLayout(), 2);
  ps.Assign(1, SmallLayout(), 3);
  ps.RunBackground();
  CHECK(ps.Last(1).assigned().timeline() == 3);
  CHECK(ps.core->data_path()->tablets()->timeline == 3);
  ps.Assign(1, SmallLayout(), 2);
  CHECK_THAT(ps.Last(1).status().message(),
             Catch::Contains("timeline 2 assigned, but 3 is served"));
}

TEST_CASE("a rollback: old pushes are fenced, the floor settles, the watermark goes back") {
  TestCore ps;
  SetUp(&ps);
  CHECK(ps.Push(0, 0, 10, {1, 1}).status() == v1::APPLIED);
  ps.AdvanceWatermark(1, 8);
  CHECK(ps.Push(0, 0, 7, {1, 1}).status() == v1::SETTLED);
  // Closure 5 is pending in the cut; 0..4 and 6..19 are settled.
  ps.floor.set_watermark(5);
  ps.floor.add_closed()->set_begin(6);
  ps.floor.mutable_closed(0)->set_end(20);
  ps.Assign(1, SmallLayout(), 2);
  ps.RunBackground();
  // Late pushes of the old timeline.
  CHECK(ps.Push(0, 0, 11, {1, 1}).status() == v1::FENCED);
  CHECK(ps.Pull(0, 0) == Floats{5, 5});
  CHECK(ps.Push(0, 0, 6, {1, 1}, 2).status() == v1::SETTLED);
  CHECK(ps.Push(0, 0, 5, {1, 1}, 2).status() == v1::APPLIED);
  CHECK(ps.Push(0, 0, 20, {1, 1}, 2).status() == v1::APPLIED);
  CHECK(ps.Push(0, 0, 5, {1, 1}, 2).status() == v1::DUPLICATE);
}

TEST_CASE("the chief's watermark settles") {
  TestCore ps;
  SetUp(&ps);
  ps.AdvanceWatermark(1, 50);
  CHECK(ps.Push(0, 0, 49, {1, 1}).status() == v1::SETTLED);
  CHECK(ps.Push(0, 0, 50, {1, 1}).status() == v1::APPLIED);
  CHECK(ps.Adopt(1, 1).hello().settled_watermark() == 50);
  CHECK_THAT(ps.registry.Text(), Catch::Contains("cohort_ps_tablet_version{tablet=\"0\"} 1\n"));
  CHECK_THAT(ps.registry.Text(),
             Catch::Contains("cohort_ps_pushes_total{verdict=\"settled\"} 1\n"));
}

TEST_CASE("a watermark waits behind the snapshot that was asked for before it") {
  TestCore ps;
  SetUp(&ps);
  v1::ChiefToPs take;
  take.set_generation(1);
  take.mutable_snapshot()->set_cut(4);
  take.mutable_snapshot()->set_timeline(1);
  take.mutable_snapshot()->set_directory("/shared/dir");
  ps.core->OnMessage(1, take);
  ps.AdvanceWatermark(1, 8);
  // The cut may name closures below 8 as pending.
  CHECK(ps.Last(1).snapshot_taken().tablets(0).applied().watermark() == 0);
  CHECK(ps.Push(0, 0, 7, {1, 1}).status() == v1::SETTLED);
}

TEST_CASE("nobody but the chief settles") {
  TestCore ps;
  SetUp(&ps);
  constexpr uint64_t kAll = uint64_t{1} << 63;
  TestRequest request;
  request.header.set_generation(1);
  request.header.set_settled_watermark(kAll);
  request.header.mutable_push()->mutable_id()->set_closure(1);
  request.header.mutable_push()->set_timeline(1);
  ps.Handle(request);  // names no section
  CHECK(ps.Push(0, 0, 2, {1, 1}, 1, 1, /*watermark=*/kAll).status() == v1::APPLIED);
  CHECK(ps.Push(0, 0, 3, {1, 1}).status() == v1::APPLIED);
  CHECK(ps.Adopt(1, 1).hello().settled_watermark() == 0);
  ps.TakeSnapshot(1, 4, "/shared/dir");
  CHECK(ps.Last(1).snapshot_taken().tablets(0).applied().watermark() == 0);
  CHECK_THAT(ps.registry.Text(), Catch::Contains("cohort_ps_watermarks_ahead_total 2\n"));
  // What the chief has said is nothing new.
  ps.AdvanceWatermark(1, 2);
  CHECK(ps.Push(0, 0, 4, {1, 1}, 1, 1, 2).status() == v1::APPLIED);
  CHECK_THAT(ps.registry.Text(), Catch::Contains("cohort_ps_watermarks_ahead_total 2\n"));
}

TEST_CASE("a push of a chief that has not come yet waits for it") {
  TestCore ps;
  SetUp(&ps);
  CHECK(ps.Push(0, 0, 1, {1, 1}, 1, /*generation=*/2).status() == v1::FENCED);
  CHECK(ps.Pull(0, 0) == Floats{5, 5});
  ps.Adopt(2, 2, 8);
  CHECK(ps.Push(0, 0, 1, {1, 1}, 1, 2).status() == v1::APPLIED);
}

TEST_CASE("a server reports its part of the norms, and closes the step with the whole norms") {
  TestCore ps;
  ps.Adopt(1, 1);
  const v1::OptimizerSpec clipping =
      OptimizerOf("SGD", {{"learning_rate", ConfigOf(1.0)}, {"global_clipnorm", ConfigOf(1.0)}});
  ps.Assign(1, Layout({Variable("w", {2}, 5)}, clipping));
  ps.RunBackground();
  REQUIRE(ps.Last(1).has_assigned());
  ps.PushStaged(7, {.step = 1, .step_try = 1}, {3, 4});
  v1::ChiefToPs sum;
  sum.set_generation(1);
  sum.set_request(50);
  sum.mutable_sum_step()->set_step(1);
  sum.mutable_sum_step()->set_step_try(1);
  sum.mutable_sum_step()->set_timeline(1);
  sum.mutable_sum_step()->add_members()->set_closure(7);
  ps.Deliver(1, sum);
  const v1::PsToChief summed = ps.Last(1);
  CHECK(summed.request() == 50);
  CHECK(summed.step_summed().step() == 1);
  REQUIRE(summed.step_summed().norms_size() == 1);
  CHECK(ExactSum::Parse(summed.step_summed().norms(0).squares())->ToDouble() == 25);
  v1::ChiefToPs close;
  close.set_generation(1);
  close.mutable_close_step()->set_step(1);
  close.mutable_close_step()->set_step_try(1);
  close.mutable_close_step()->set_timeline(1);
  *close.mutable_close_step()->mutable_members() = sum.sum_step().members();
  close.mutable_close_step()->add_norms()->set_norm(10);  // another server has the rest
  ps.Deliver(1, close);
  CHECK(ps.Last(1).step_closed().step() == 1);
  CHECK(ps.Pull(0, 0) == Floats{5 - 0.3f, 5 - 0.4f});
  // What is left of an older timeline is not answered; an abandoned step is an error.
  sum.mutable_sum_step()->set_timeline(9);
  ps.Deliver(1, sum);
  CHECK(ps.sent[1].empty());
  sum.mutable_sum_step()->set_timeline(1);
  ps.Deliver(1, sum);
  CHECK(ps.Last(1).status().code() == static_cast<int>(absl::StatusCode::kFailedPrecondition));
}

TEST_CASE("a skipped step changes nothing, and the hello has the iteration and the loss scale") {
  TestCore ps;
  SetUp(&ps);
  ps.PushStaged(7, {.step = 1, .step_try = 1}, {std::numeric_limits<float>::infinity(), 1});
  v1::ChiefToPs close;
  close.set_generation(1);
  v1::CloseStep* const step = close.mutable_close_step();
  step->set_step(1);
  step->set_step_try(1);
  step->set_timeline(1);
  step->set_iteration(3);
  step->add_members()->set_closure(7);
  step->set_skip(true);
  step->mutable_loss_scale()->set_scale(512);
  ps.Deliver(1, close);
  CHECK(ps.Last(1).step_closed().step() == 1);
  CHECK(ps.Pull(0, 0) == Floats{5, 5});
  const auto position = [&ps] { return ps.Adopt(2, 0, 8, /*probe=*/true).hello().position(); };
  const v1::StepPosition skipped = position();
  CHECK(skipped.open_step() == 2);
  CHECK(skipped.iteration() == 3);
  CHECK(skipped.loss_scale().scale() == 512);
  ps.PushStaged(8, {.step = 2, .step_try = 1}, {1, 1});
  step->set_step(2);
  step->mutable_members(0)->set_closure(8);
  step->set_skip(false);
  step->mutable_loss_scale()->set_finite_steps(1);
  ps.Deliver(1, close);
  CHECK(ps.Pull(0, 0) != Floats{5, 5});
  CHECK(position().iteration() == 4);
  CHECK(position().loss_scale().finite_steps() == 1);
}

TEST_CASE("updates have the learning rates that the chief has set, by their iterations") {
  TestCore ps;
  ps.Adopt(1, 1);
  ps.Assign(
      1, Layout({Variable("w", {2}, 5)}, OptimizerOf("SGD", {{"learning_rate", ConfigOf(1.0)}})));
  ps.RunBackground();
  REQUIRE(ps.Last(1).has_assigned());
  v1::ChiefToPs set;
  set.set_generation(1);
  set.set_request(60);
  v1::LearningRate* const rate = set.mutable_learning_rates()->add_rates();
  rate->set_iteration(8);
  rate->set_rate(0.5);
  ps.Deliver(1, set);
  const v1::PsToChief answer = ps.Last(1);
  CHECK(answer.request() == 60);
  CHECK(answer.status().code() == 0);
  ps.Push(0, 0, /*closure=*/7, {1, 1});
  CHECK(ps.Pull(0, 0) == Floats{4, 4});
  ps.Push(0, 0, /*closure=*/8, {1, 1});
  CHECK(ps.Pull(0, 0) == Floats{3.5, 3.5});
}

TEST_CASE("a snapshot is taken at once, written later, and not changed meanwhile") {
  TestCore ps;
  SetUp(&ps);
  ps.Push(0, 0, 3, {1, 1});
  ps.TakeSnapshot(1, 4, "/shared/dir");
  const auto taken = ps.Last(1);
  CHECK(taken.request() == ps.request);
  CHECK(taken.snapshot_taken().cut() == 4);
  CHECK(taken.snapshot_taken().tablets(0).applied().applied(0).closure() == 3);
  CHECK(!ps.core->WaitForSnapshots(TimePoint()));
  ps.Push(0, 0, 4, {1, 1});
  ps.RunBackground();
  const auto written = ps.Last(1);
  CHECK(written.request() == ps.request);
  CHECK(written.snapshot_written().files(0).name() == "ps-file");
  CHECK(ps.written_values == Floats{4, 4});
  CHECK(ps.core->WaitForSnapshots(TimePoint()));
}

TEST_CASE("snapshots that fail, are dropped, or belong to another timeline return an error") {
  TestCore ps;
  SetUp(&ps);
  ps.TakeSnapshot(1, 1, "/shared/dir", /*timeline=*/9);
  CHECK_THAT(ps.Last(1).status().message(), Catch::Contains("it is of timeline 9"));
  ps.write_status = ResourceExhausted("disk full");
  ps.TakeSnapshot(1, 2, "/shared/dir");
  ps.RunBackground();
  CHECK(StatusFromProto(ps.Last(1).status()).code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(ps.registry.Text(), Catch::Contains("cohort_ps_snapshots_total{result=\"failed\"} 1"));
  CHECK(ps.Push(0, 0, 1, {1, 1}).status() == v1::APPLIED);
  ps.write_status = absl::OkStatus();
  ps.TakeSnapshot(1, 3, "/shared/dir");
  v1::ChiefToPs drop;
  drop.set_generation(1);
  drop.mutable_drop_snapshot()->set_cut(3);
  ps.core->OnMessage(1, drop);
  ps.RunBackground();
  CHECK(StatusFromProto(ps.Last(1).status()).code() == absl::StatusCode::kCancelled);
  CHECK(ps.written_values.empty());
}

TEST_CASE("who ends the server waits until snapshots are written or dropped") {
  TestCore ps;
  SetUp(&ps);
  CHECK(ps.core->WaitForSnapshots(TimePoint::min()));
  ps.TakeSnapshot(1, 5, "/shared/cut");
  CHECK_FALSE(ps.core->WaitForSnapshots(TimePoint::min()));
  const int how = GENERATE(0, 1, 2);
  std::atomic<bool> waited = false;
  const TimePoint far = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  std::thread end([&] { waited = ps.core->WaitForSnapshots(far); });
  if (how == 0) {
    ps.RunBackground();
  } else if (how == 1) {
    v1::ChiefToPs drop;
    drop.set_generation(1);
    drop.mutable_drop_snapshot()->set_cut(5);
    ps.core->OnMessage(1, drop);
  } else {
    ps.core->DropSnapshots();
  }
  end.join();
  CHECK(waited);
  CHECK(std::chrono::steady_clock::now() < far);
}

TEST_CASE("an answer goes to the chief that asked, never to its successor") {
  TestCore ps;
  SetUp(&ps);
  ps.TakeSnapshot(1, 5, "/shared/dir");
  ps.Adopt(2, 2, 8);
  ps.RunBackground();
  CHECK(ps.sent[2].empty());
}

// A store from which each read takes 0.4 s.
class SlowStore : public ShardStore {
 public:
  class Source : public ShardSource {
   public:
    explicit Source(ManualClock* clock) : clock_(clock) {}
    absl::Status ReadRows(const std::string&, const std::string&, DType, uint64_t, uint64_t,
                          std::span<uint8_t> out) override {
      clock_->Advance(std::chrono::milliseconds(400));
      std::ranges::fill(out, 0);
      return absl::OkStatus();
    }
    absl::StatusOr<RestoredTablet> Tablet(const v1::Layout&, uint32_t) override {
      return RestoredTablet();
    }

   private:
    ManualClock* const clock_;
  };
  absl::StatusOr<std::vector<v1::SnapshotFile>> Write(SnapshotJob* job) override {
    for (ShardBlock& block : job->tablets[0].shards[0].blocks) {
      clock->Advance(std::chrono::milliseconds(400));
      job->Drop(&block.values);
    }
    return std::vector<v1::SnapshotFile>();
  }
  absl::StatusOr<std::unique_ptr<ShardSource>> Open(const std::string&) override {
    return std::make_unique<Source>(clock);
  }
  absl::Status CheckDirectory(const std::string&, const std::string&) override {
    return absl::OkStatus();
  }
  ManualClock* clock = nullptr;
};

TEST_CASE("a server reports each second how far a restore and a snapshot are") {
  SlowStore store;
  TestCore ps(0, &store);
  store.clock = &ps.clock;
  ps.Adopt(1, 1);
  ps.Assign(1, Layout({Variable("a", {160})}, Sgd(1)), 1, "manifest");  // 10 blocks of 64 bytes
  const uint64_t restore = ps.request;
  ps.RunBackground();
  std::vector<uint64_t> bytes;
  for (const v1::PsToChief& message : ps.sent[1]) {
    CHECK(message.request() == restore);
    if (message.has_progress()) bytes.push_back(message.progress().bytes());
  }
  CHECK(bytes == std::vector<uint64_t>{4 * 64, 7 * 64, 10 * 64});
  CHECK(ps.Last(1).has_assigned());
  ps.TakeSnapshot(1, 5, "/shared/dir");
  ps.RunBackground();
  bytes.clear();
  uint64_t pushes = 0;
  for (const v1::PsToChief& message : ps.sent[1]) {
    if (message.has_pong()) {
      pushes = message.pong().figures().pushes();  // as they were at the cut
      continue;
    }
    CHECK(message.request() == ps.request);
    if (message.has_progress()) bytes.push_back(message.progress().bytes());
  }
  CHECK(bytes == std::vector<uint64_t>{3 * 64, 6 * 64, 9 * 64});
  CHECK(pushes == 3);
}

TEST_CASE("a server reports each second how much of a step it has closed") {
  TestCore ps;
  ps.Adopt(1, 1);
  const std::vector<int> three_tablets = {3};
  ps.Assign(1, Layout({Variable("a", {16}), Variable("b", {16}), Variable("c", {16})}, Sgd(1), 1,
                      three_tablets));
  ps.RunBackground();
  REQUIRE(ps.Last(1).has_assigned());
  v1::ChiefToPs close;
  close.set_generation(1);
  close.set_request(70);
  close.mutable_close_step()->set_step(1);
  close.mutable_close_step()->set_step_try(1);
  close.mutable_close_step()->set_timeline(1);
  ps.clock.per_look = std::chrono::milliseconds(700);
  ps.Deliver(1, close);
  std::vector<uint64_t> bytes;
  for (const v1::PsToChief& message : ps.sent[1]) {
    CHECK(message.request() == 70);
    if (message.has_progress()) bytes.push_back(message.progress().bytes());
  }
  CHECK(bytes == std::vector<uint64_t>{64, 128, 192});
  CHECK(ps.Last(1).step_closed().step() == 1);
}

TEST_CASE("a build continues for the chief that asks for the same values again") {
  TestCore ps;
  ps.Adopt(1, 1);
  const v1::Layout layout = Layout({Variable("a", {64}), Variable("b", {64})}, Sgd(1), 2);
  ps.Assign(1, layout);
  // The chief dies while the build runs; the next one asks at another timeline.
  REQUIRE(ps.background.size() == 1);
  ps.Adopt(2, 2, 8, false, /*takeover=*/true);
  ps.Assign(2, layout, 5, "", 2);
  CHECK(ps.background.size() == 1);
  ps.RunBackground();
  const v1::PsToChief answer = ps.Last(2);
  CHECK(answer.request() == ps.request);
  CHECK(answer.assigned().timeline() == 5);
  CHECK(ps.core->data_path()->tablets()->timeline == 5);
  CHECK(ps.core->data_path()->tablets()->tablets[0]->term() == 5);
  // Other values need another build.
  ps.Assign(2, SmallLayout(), 6, "", 2);
  ps.Assign(2, layout, 7, "", 2);
  CHECK(ps.background.size() == 2);
  CHECK(absl::StatusCode(ps.sent[2][0].status().code()) == absl::StatusCode::kAborted);
  ps.RunBackground();
  CHECK(ps.Last(2).assigned().timeline() == 7);
}

TEST_CASE("a new copy takes no entry of a stream that is older than the copy") {
  TestCore ps;
  ps.Adopt(1, 1);
  v1::ChiefToPs make;
  make.set_generation(1);
  v1::AssignTablets* const assign = make.mutable_make_copy()->mutable_assign();
  *assign->mutable_layout() = SmallLayout();
  assign->mutable_layout()->mutable_tablets(0)->set_ps(1);
  assign->mutable_layout()->mutable_tablets(0)->set_copy(1);
  assign->set_timeline(1);
  assign->set_term(1);
  v1::CopyEntry last_piece;
  last_piece.set_timeline(1);
  last_piece.set_term(1);
  last_piece.mutable_state()->set_number(1);
  last_piece.mutable_state()->mutable_cut();
  last_piece.mutable_state()->set_open_step(1);
  // The chief asks for the copy twice, under the same term.
  uint64_t older = ps.core->OnCopyStream();
  for (int copy = 0; copy < 2; ++copy) {
    make.set_request(++ps.request);
    ps.Deliver(1, make);
    ps.RunBackground();
    REQUIRE(ps.Last(1).has_assigned());
    const v1::CopyAck refused = ps.core->OnCopyEntry(last_piece, {.stream = older});
    CHECK_THAT(refused.error().message(), Catch::Contains("the log of an earlier copy"));
    const uint64_t stream = ps.core->OnCopyStream();
    const v1::CopyAck taken = ps.core->OnCopyEntry(last_piece, {.stream = stream});
    CHECK_FALSE(taken.has_error());
    CHECK(taken.state() == 1);
    older = stream;
  }
}

TEST_CASE("failed assignments are answered and leave the server empty") {
  TestCore ps;
  ps.Adopt(1, 1);
  ps.Assign(1, SmallLayout(), 1, "/no/manifest");
  ps.RunBackground();
  CHECK_THAT(ps.Last(1).status().message(), Catch::Contains("/no/manifest: no such manifest"));
  v1::Layout broken = SmallLayout();
  broken.mutable_shards(0)->set_rows(100);
  ps.Assign(1, broken);
  ps.RunBackground();
  CHECK_THAT(ps.Last(1).status().message(), Catch::Contains("100 rows from 0 of 'w', which has 2"));
  v1::Layout unknown = SmallLayout();
  unknown.mutable_optimizers(0)->mutable_rule()->set_class_name("Lion");
  ps.Assign(1, unknown);
  ps.RunBackground();
  CHECK(ps.Last(1).status().code() != 0);
  CHECK(!ps.core->serving());
}

TEST_CASE("the end of the job") {
  TestCore ps;
  SetUp(&ps);
  v1::ChiefToPs message;
  message.set_generation(1);
  message.mutable_shutdown()->set_job_finished(true);
  ps.core->OnMessage(2, message);
  CHECK(!ps.ended.has_value());
  ps.core->OnMessage(1, message);
  CHECK(ps.ended == true);
}

TEST_CASE("a crash point lies between the sections of one push") {
  TestCore ps;
  ps.Adopt(1, 1);
  ps.Assign(1, Layout({Variable("a", {64}), Variable("b", {64})}, Sgd(1), 1, {2}));
  ps.RunBackground();
  TestRequest request;
  request.header.set_generation(1);
  request.header.mutable_push()->set_timeline(1);
  for (uint32_t tablet = 0; tablet < 2; ++tablet) {
    v1::PushSection* section = request.header.mutable_push()->add_sections();
    section->set_tablet(tablet);
    section->set_term(1);
  }
  static uint64_t version_at_crash[2];
  static PsCore* core;
  core = ps.core.get();
  WatchCrashPoints([](std::string_view) {
    for (uint32_t t = 0; t < 2; ++t) {
      version_at_crash[t] = core->data_path()->tablets()->Find(t)->version();
    }
  });
  REQUIRE(ArmCrashPoint("ps.push.partial").ok());
  ps.Handle(request);
  CHECK(version_at_crash[0] == 1);
  CHECK(version_at_crash[1] == 0);
  CHECK(CrashPointHits("ps.push.received") == 2);
  CHECK(CrashPointHits("ps.push.applied") == 2);
}

TEST_CASE("control and data from many threads") {
  TestCore ps;
  SetUp(&ps);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<uint64_t> applied{0};
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      RequestAssembler assembler;
      DataPathScratch scratch;
      for (uint64_t i = 0; i < 2000 && !stop; ++i) {
        TestRequest request;
        request.header.set_generation(1000);
        v1::PushPart* push = request.header.mutable_push();
        push->mutable_id()->set_closure(i * 2 + t);
        // Asked once: the set may be replaced, and none be served, between two questions.
        const std::shared_ptr<const TabletSet> tablets = ps.core->data_path()->tablets();
        push->set_timeline(tablets == nullptr ? 0 : tablets->timeline);
        push->set_weight(1);
        v1::PushSection* section = push->add_sections();
        section->set_term(push->timeline());
        v1::PushEntry* entry = section->add_entries();
        entry->set_kind(v1::GRADIENT);
        entry->set_count(2);
        request.Add(Floats{1, 1});
        request.header.mutable_pull()->add_sections()->add_entries();
        if (!assembler.Add(request.header, request.payload).ok()) continue;
        v1::PushPullResponseHeader header;
        std::vector<PayloadSlice> payload;
        ps.core->data_path()->Handle(assembler.Finish(), &scratch, &header, &payload);
        applied += header.pushes(0).status() == v1::APPLIED;
      }
    });
  }
  for (uint64_t g = 2; g < 30; ++g) {
    ps.Adopt(g, g, 7);
    ps.TakeSnapshot(g, g, "/shared/dir", ps.core->data_path()->tablets()->timeline, g);
    if (g % 5 == 0) ps.Assign(g, SmallLayout(), g, "", g);
    ps.RunBackground();
    CHECK(ps.core->serving());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK_THAT(ps.core->StatusText(), Catch::Contains("generation 29"));
}

}  // namespace
}  // namespace cohort::ps_test
