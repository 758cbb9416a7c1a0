#include "deploy/cluster_check/reach_table.h"

#include <catch2/catch.hpp>

#include "common/cluster/free_ports.h"

namespace cohort {
namespace {

constexpr Task kChief{Role::kChief, 0};
constexpr Task kWorker0{Role::kWorker, 0};
constexpr Task kWorker1{Role::kWorker, 1};

ClusterSpec TwoWorkers() {
  ClusterSpec cluster;
  cluster.Set(kWorker0, {"host1", 2222});
  cluster.Set(kWorker1, {"host2", 2222});
  cluster.Set({Role::kEvaluator, 0}, {"host3", 2222});  // takes no part
  return cluster;
}

v1::CheckedPeer Peer(Task task, v1::ReachOutcome outcome, const std::string& detail = "") {
  v1::CheckedPeer peer;
  *peer.mutable_task() = TaskIdOf(task);
  peer.set_outcome(outcome);
  peer.set_detail(detail);
  return peer;
}

TEST_CASE("a table is complete when all tasks know that all pairs work") {
  ReachTable a(TwoWorkers(), kWorker0, {});
  ReachTable b(TwoWorkers(), kWorker1, {});
  CHECK(a.peers() == std::vector<Task>{kWorker1});
  CHECK(a.Waiting() == "worker:1 (host2:2222)");
  a.Record(Peer(kWorker1, v1::REACHED));
  CHECK(!a.AllReached());  // worker:1 has not reported
  b.Record(Peer(kWorker0, v1::REACHED));
  a.Merge(b.Report());
  CHECK(a.AllReached());
  CHECK(!a.AllComplete());
  CHECK(a.Waiting() == "");
  b.Merge(a.Report());
  CHECK(b.AllReached());
  CHECK(b.AllComplete());
  a.Merge(b.Report());
  CHECK(a.AllComplete());
  CHECK(a.Text() ==
        "from \\ to  worker:0  worker:1\n"
        "worker:0   -         ok\n"
        "worker:1   ok        -\n"
        "\n2 of 2 pairs work\n");
}

TEST_CASE("a task that was reached and has ended knew all") {
  ReachTable a(TwoWorkers(), kWorker0, {});
  ReachTable b(TwoWorkers(), kWorker1, {});
  a.Record(Peer(kWorker1, v1::REACHED));
  b.Record(Peer(kWorker0, v1::REACHED));
  a.Merge(b.Report());
  CHECK(a.AllReached());
  a.Record(Peer(kWorker1, v1::REFUSED, "connection refused"));
  CHECK(a.AllReached());
  CHECK(a.AllComplete());
  a.Record(Peer(kWorker1, v1::REACHED));  // it is there after all
  CHECK(!a.AllComplete());
}

TEST_CASE("beside parameter servers a chief without an address may still come") {
  ClusterSpec cluster = TwoWorkers();
  CHECK(!ReachTable(cluster, kWorker0, {}).AwaitsChief());  // replicas
  cluster.Set({Role::kPs, 0}, {"host4", 2222});
  ReachTable worker(cluster, kWorker0, {});
  CHECK(worker.AwaitsChief());
  ReachTable chief(cluster, kChief, {});
  CHECK(!chief.AwaitsChief());
  worker.Merge(chief.Report());
  CHECK(!worker.AwaitsChief());
}

TEST_CASE("a report replaces only an older one") {
  ReachTable a(TwoWorkers(), kWorker0, {});
  ReachTable b(TwoWorkers(), kWorker1, {});
  b.Record(Peer(kWorker0, v1::TIMED_OUT, "timed out"));
  const v1::CheckReport old = b.Report();
  b.Record(Peer(kWorker0, v1::REACHED));
  a.Merge(b.Report());
  a.Merge(old);
  a.Record(Peer(kWorker1, v1::REACHED));
  CHECK(a.AllReached());
}

TEST_CASE("the text names the pairs that do not work, and the tasks that have not reported") {
  ReachTable chief(TwoWorkers(), kChief, {});
  ReachTable worker(TwoWorkers(), kWorker0, {});
  chief.Record(Peer(kWorker0, v1::REACHED));
  chief.Record(Peer(kWorker1, v1::TIMED_OUT, "timed out"));
  worker.Record(Peer(kWorker1, v1::REFUSED, "connection refused"));
  chief.Merge(worker.Report());
  CHECK(!chief.AllReached());
  const std::string expected =
      "from \\ to  worker:0  worker:1\n"
      "chief:0    ok        timed out\n"
      "worker:0   -         refused\n"
      "worker:1   ?         -\n"
      "\n"
      "chief:0 -> worker:1 (host2:2222): timed out: a firewall drops the packets, or the host is "
      "down: allow this TCP port\n"
      "worker:1 (host2:2222) has not reported: start `cohort cluster-check` there while it runs on "
      "the others\n"
      "1 of 4 pairs work\n";
  CHECK(chief.Text() == expected);
}

TEST_CASE("tasks of one host show if unix sockets join them") {
  ReachTable a(TwoWorkers(), kWorker0, {});
  v1::CheckedPeer peer = Peer(kWorker1, v1::REACHED);
  peer.set_same_host(true);
  a.Record(peer);
  CHECK(a.Text().find("worker:0   -         ok, unix\n") != std::string::npos);
  ReachTable b(TwoWorkers(), kWorker0, {});
  peer.set_unix_error("the socket file does not exist");
  b.Record(peer);
  CHECK(b.Text().find("-         ok, TCP only\n") != std::string::npos);
  CHECK(b.Text().find("without unix sockets: the socket file does not exist\n") !=
        std::string::npos);
}

TEST_CASE("a probe tells a port without a listener from a name that is unknown") {
  const auto ports = ChooseFreePorts(1);
  REQUIRE(ports.ok());
  const std::chrono::milliseconds limit(1000);
  CHECK(ProbeTcp({"127.0.0.1", ports->front()}, limit).outcome == v1::REFUSED);
  CHECK(ProbeTcp({"not a name", 1}, limit).outcome == v1::UNKNOWN_HOST);
}

}  // namespace
}  // namespace cohort
