// Replicas that are lost and come back, without a network.
#include "chief/job/elastic_replicas.h"

#include <catch2/catch.hpp>

#include "chief/job/job_walk.h"
#include "common/base/clock_test_util.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Numbers = std::set<int>;

absl::Status LostReplica(int index) {
  absl::Status status = Unavailable("ps:{} is lost", index);
  SetFailure(&status, {.role = "ps", .index = index, .retryable = true});
  return status;
}

absl::Status ReplicasBack() {
  absl::Status status = Unavailable("replicas come or leave");
  SetFailure(&status, {.role = "replica", .retryable = true});
  return status;
}

// Four replicas. Those in `there` answer.
struct FourReplicas {
  FourReplicas() {
    ElasticReplicas::Options options{.clock = &clock,
                                     .log = log.get(),
                                     .answers = [this] { return there; },
                                     .leaving = [this] { return leaving; },
                                     .ask = [this] { ++asked; },
                                     .roll_call =
                                         [this](const Numbers& called, Duration) {
                                           ReplicaWatch::Answers answers;
                                           for (const int number : called) {
                                             const auto it = there.find(number);
                                             if (it != there.end()) answers.insert(*it);
                                           }
                                           return answers;
                                         }};
    for (int i = 0; i < 4; ++i) options.all.Set({Role::kWorker, i}, Address{"h", 1 + i});
    replicas.emplace(std::move(options));
    replicas->OnStarted();
  }
  // The addresses of the cluster, in order: the ports.
  std::string Used() const {
    std::string text;
    const ClusterSpec cluster = replicas->cluster();
    for (const auto& [index, address] : cluster.tasks(Role::kWorker)) {
      CHECK(cluster.Find({Role::kPs, index})->ToString() == address.ToString());
      text += address.ToString().substr(2);
    }
    return text;
  }
  std::string Change(const absl::Status& status, bool in_start = false) {
    const auto line = replicas->Change({.status = status, .in_start = in_start});
    if (line.has_value() && !in_start) replicas->OnStarted();
    return line.value_or("the end");
  }
  // Trains for this time, or until it should end. Returns whether it should.
  bool IsDueWithin(Duration time) {
    for (Duration waited{}; waited < time; waited += std::chrono::milliseconds(100)) {
      if (replicas->IsDue()) return true;
      clock.Advance(std::chrono::milliseconds(100));
    }
    return false;
  }

  ManualClock clock;
  std::unique_ptr<Logger> log = Logger::Discard();
  ReplicaWatch::Answers there = {{0, 10}, {1, 11}, {2, 12}, {3, 13}};
  Numbers leaving;
  int asked = 0;
  std::optional<ElasticReplicas> replicas;
};

TEST_CASE("the job continues without a lost replica, and with it when it is back") {
  FourReplicas four;
  CHECK_FALSE(four.replicas->changed());
  CHECK(four.Used() == "1234");
  CHECK(four.replicas->GivesUp(2, /*is_back=*/false));
  four.there.erase(2);
  CHECK(four.Change(LostReplica(2)) ==
        "ps:2 is lost; continuing without worker:2 (h:3), on 3 replicas");
  CHECK(four.Used() == "124");
  CHECK(four.replicas->changed());
  CHECK_FALSE(four.IsDueWithin(seconds(60)));

  four.there[2] = 22;
  REQUIRE(four.IsDueWithin(seconds(2)));
  CHECK(four.Change(ReplicasBack()) == "worker:2 (h:3) is back; continuing on 4 replicas");
  CHECK(four.Used() == "1234");
}

TEST_CASE("a replica that leaves is let go with a checkpoint, also soon after another change") {
  FourReplicas four;
  four.there.erase(1);
  four.Change(LostReplica(1));
  four.leaving = {1, 2};  // the first one is not in use
  REQUIRE(four.replicas->IsDue());
  CHECK_FALSE(four.replicas->IsDue());  // not again at once, if no checkpoint could be taken
  REQUIRE(four.IsDueWithin(seconds(3)));
  four.there.erase(2);
  CHECK(four.Change(ReplicasBack()) == "worker:2 (h:3) is gone; continuing on 2 replicas");
  CHECK(four.Used() == "14");
  CHECK(four.asked == 3);  // at each start
  four.leaving.clear();
  four.there[2] = 22;
  CHECK(four.IsDueWithin(seconds(10)));
}

TEST_CASE("numbers are those of the cluster that has lost the replica") {
  FourReplicas four;
  four.there.erase(1);
  four.Change(LostReplica(1));
  CHECK(four.Used() == "134");
  four.there.erase(3);
  CHECK(four.Change(LostReplica(2)) ==
        "ps:2 is lost; continuing without worker:3 (h:4), on 2 replicas");
  CHECK(four.Used() == "13");
  four.there[1] = 21;
  four.there[3] = 23;
  REQUIRE(four.IsDueWithin(seconds(2)));
  CHECK(four.Change(ReplicasBack()) ==
        "worker:1 (h:2), worker:3 (h:4) are back; continuing on 4 replicas");
}

TEST_CASE("all replicas that do not answer the roll call are left out, but not the first") {
  FourReplicas four;
  four.there = {{2, 12}};
  CHECK(four.Change(LostReplica(1)) ==
        "ps:1 is lost; continuing without worker:1 (h:2), worker:3 (h:4), on 2 replicas");
  CHECK(four.Used() == "13");
}

TEST_CASE("a replica that is lost again before it is used is left out") {
  FourReplicas four;
  four.there.erase(3);
  four.Change(LostReplica(3));
  four.there[3] = 23;
  REQUIRE(four.IsDueWithin(seconds(2)));
  four.there.erase(3);
  CHECK(four.Change(ReplicasBack()) == "worker:3 (h:4) is lost again; continuing on 3 replicas");
  CHECK(four.Used() == "123");
  four.there[3] = 33;
  CHECK_FALSE(four.IsDueWithin(std::chrono::milliseconds(1900)));  // that was its second loss
  CHECK(four.IsDueWithin(seconds(1)));
}

TEST_CASE("a replica that comes and goes is taken in ever less often, and stays only once") {
  FourReplicas four;
  CHECK_FALSE(four.replicas->GivesUp(1, /*is_back=*/true));
  for (const int pause_s : {2, 4, 8}) {
    CHECK(four.replicas->GivesUp(1, /*is_back=*/true));
    four.there.erase(1);
    four.Change(LostReplica(1));
    four.there[1] = static_cast<uint64_t>(pause_s);
    CHECK_FALSE(four.IsDueWithin(seconds(pause_s)));
    REQUIRE(four.IsDueWithin(seconds(1)));
    four.Change(ReplicasBack());
  }
  four.clock.Advance(minutes(10));
  CHECK_FALSE(four.replicas->GivesUp(1, /*is_back=*/true));
}

TEST_CASE("the first replica is waited for") {
  FourReplicas four;
  CHECK_FALSE(four.replicas->GivesUp(0, /*is_back=*/false));
  CHECK(four.Change(LostReplica(0)) == "the end");
}

TEST_CASE("a run trains for four times as long as the change before it has cost") {
  FourReplicas four;
  four.there.erase(1);
  REQUIRE(four.replicas->Change({.status = LostReplica(1)}).has_value());
  four.clock.Advance(seconds(7));  // the restore
  four.replicas->OnStarted();
  four.there[1] = 21;
  CHECK_FALSE(four.IsDueWithin(seconds(28)));
  CHECK(four.IsDueWithin(seconds(1)));
  // Its checkpoint has failed.
  CHECK_FALSE(four.IsDueWithin(seconds(29)));
  CHECK(four.IsDueWithin(seconds(2)));
}

TEST_CASE("a run that does not start is repeated without those that joined it") {
  FourReplicas four;
  const absl::Status refused = FailedPrecondition("worker:1 has no plugin");
  CHECK(four.Change(refused, /*in_start=*/true) == "the end");  // nothing has changed before
  four.there.erase(1);
  four.Change(LostReplica(1));
  four.there[1] = 21;
  REQUIRE(four.IsDueWithin(seconds(2)));
  REQUIRE(four.replicas->Change({.status = ReplicasBack()}).has_value());
  CHECK(four.replicas->has_joined());

  SECTION("one of the others is lost at the same time") {
    four.there.erase(2);
    const absl::Status missing = DeadlineExceeded("waiting for worker:2");
    CHECK(four.Change(missing, /*in_start=*/true) ==
          "waiting for worker:2; continuing without worker:2 (h:3), on 3 replicas");
    CHECK(four.Used() == "124");
    CHECK(four.replicas->has_joined());
  }
  SECTION("all answer") {
    CHECK(four.Change(refused, /*in_start=*/true) ==
          "worker:1 has no plugin; continuing without worker:1 (h:2), on 3 replicas");
    CHECK(four.Used() == "134");
    CHECK(four.Change(refused, /*in_start=*/true) == "the end");
    four.replicas->OnStarted();
    CHECK_FALSE(four.IsDueWithin(minutes(5)));  // the same process
    four.there[1] = 31;
    CHECK(four.IsDueWithin(seconds(3)));
  }
  SECTION("an interrupt ends the job") {
    CHECK(four.Change(Cancelled("interrupted"), /*in_start=*/true) == "the end");
  }
}

TEST_CASE(
    "a chief that is restarted continues without a replica that was lost with its former one") {
  testing::TestDirectory directory;
  FourReplicas four;
  CHECK(four.replicas->Recall(directory.path()).empty());
  CHECK(four.replicas->repeats_start());
  CHECK_FALSE(four.replicas->changed());
  four.there.erase(2);
  CHECK(four.Change(DeadlineExceeded("waiting for worker:2"), /*in_start=*/true) ==
        "waiting for worker:2; continuing without worker:2 (h:3), on 3 replicas");
  CHECK(four.Used() == "124");
}

TEST_CASE("the replicas that are left are noted for a chief that is restarted") {
  testing::TestDirectory directory;
  const std::string path = directory.path() + "/replicas_left";
  FourReplicas four;
  four.replicas->Note(directory.path());
  CHECK(!ReadFile(path, 100).ok());
  four.there = {{0, 10}, {2, 12}};
  four.Change(LostReplica(1));
  four.replicas->Note(directory.path());
  CHECK(*ReadFile(path, 100) == "h:1\nh:3\n");

  FourReplicas restarted;
  CHECK(restarted.replicas->Recall(directory.path()) ==
        "continuing on the 2 of 4 replicas that were left");
  CHECK(restarted.Used() == "13");
  CHECK(restarted.replicas->changed());
  REQUIRE(restarted.IsDueWithin(seconds(1)));
  restarted.Change(ReplicasBack());
  restarted.replicas->Note(directory.path());
  CHECK(!ReadFile(path, 100).ok());
  CHECK(FourReplicas().replicas->Recall(directory.path()).empty());
}

}  // namespace
}  // namespace cohort
