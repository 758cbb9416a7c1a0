#include <catch2/catch.hpp>
#include <string>

#include "common/base/exit_code.h"
#include "common/base/metrics.h"
#include "common/cluster/method_table.h"
#include "common/cluster/security.h"
#include "common/testing/status_test_util.h"
#include "common/tls/tls_test_files.h"

namespace cohort {
namespace {

using Catch::Matchers::Contains;
using testing::Message;
using testing::TlsTestFiles;

constexpr char kPeer[] = "ipv4:10.0.0.1:5";
constexpr char kPushPull[] = "/cohort.v1.ParameterServer/PushPull";

struct Server {
  explicit Server(const std::string& uri = "cohort://lab/ps/0", bool replicas = false)
      : security(*Security::Create({.tls_dir = files.Write("own", uri), .replicas = replicas})) {}

  PeerCertificate Issue(const std::string& uri, int days = 1) const {
    return {.leaf = files.Issue(uri, days).certificate};
  }
  absl::StatusOr<PeerIdentity> Admit(const std::string& uri, std::string_view method) const {
    return security->AdmitClient(Issue(uri), kPeer, method);
  }
  uint64_t refused(RefusalReason reason) const { return security->refusals()->count(reason); }

  TlsTestFiles files;
  std::shared_ptr<const Security> security;
};

TEST_CASE("a certificate may call the methods of its role, and no others") {
  const Server server;
  uint64_t refused = 0;
  for (int role = 0; role < kNumPeerRoles; ++role) {
    const std::string name(PeerRoleName(static_cast<PeerRole>(role)));
    for (const MethodRule& rule : MethodTable()) {
      INFO(name << " calls " << rule.method);
      const bool allowed = rule.Allows(static_cast<PeerRole>(role));
      CHECK(server.Admit("cohort://lab/" + name + "/0", rule.method).ok() == allowed);
      CHECK(server.Admit("cohort://lab/" + name, rule.method).ok() == allowed);
      refused += allowed ? 0 : 2;
    }
  }
  CHECK(server.refused(RefusalReason::kMethod) == refused);
}

TEST_CASE("a certificate is refused for its CA, its time, or its identity, and counted") {
  const Server server;
  const TlsTestFiles other;
  const auto reason = [&](const PeerCertificate& certificate, RefusalReason expected) {
    const uint64_t before = server.refused(expected);
    const auto admitted = server.security->AdmitClient(certificate, kPeer, kPushPull);
    CHECK(absl::IsPermissionDenied(admitted.status()));
    CHECK(server.refused(expected) == before + 1);
    return Message(admitted.status());
  };
  CHECK_THAT(reason({}, RefusalReason::kNoCertificate), Contains("--tls_dir"));
  CHECK_THAT(
      reason({.leaf = other.Issue("cohort://lab/worker/0").certificate}, RefusalReason::kUntrusted),
      Contains("cohort://lab/worker/0") && Contains("ca.crt"));
  CHECK_THAT(reason(server.Issue("cohort://lab/worker/0", -1), RefusalReason::kExpired),
             Contains("expired"));
  CHECK_THAT(reason(server.Issue("cohort://elsewhere/worker/0"), RefusalReason::kIdentity),
             Contains("elsewhere"));
  CHECK_THAT(reason(server.Issue("https://lab/worker/0"), RefusalReason::kIdentity),
             Contains("cohort://CLUSTER/ROLE/INDEX"));
}

TEST_CASE("a client accepts only the task that it dialed") {
  const Server client("cohort://lab/worker/0");
  const auto check = [&](const std::string& uri, std::optional<Task> task) {
    return client.security->CheckServer(client.Issue(uri), "10.0.0.2:1", task).ok();
  };
  CHECK(check("cohort://lab/ps/1", Task{Role::kPs, 1}));
  CHECK(check("cohort://lab/ps", Task{Role::kPs, 1}));
  CHECK(check("cohort://lab/ps/1", std::nullopt));
  CHECK_FALSE(check("cohort://lab/ps/0", Task{Role::kPs, 1}));
  CHECK_FALSE(check("cohort://lab/worker/1", Task{Role::kPs, 1}));
  CHECK_FALSE(check("cohort://lab/chief", Task{Role::kPs, 0}));
  CHECK_FALSE(check("cohort://other/ps/1", std::nullopt));
  CHECK(client.refused(RefusalReason::kIdentity) == 4);
}

TEST_CASE("a peer may only say that it is the task of its certificate") {
  const Server server;
  const PeerIdentity worker{"lab", PeerRole::kWorker, 1};
  CHECK(server.security->CheckClaim(worker, kPeer, {Role::kWorker, 1}).ok());
  CHECK(server.security->CheckClaim(std::nullopt, kPeer, {Role::kChief, 0}).ok());
  CHECK_FALSE(server.security->CheckClaim(worker, kPeer, {Role::kWorker, 2}).ok());
  CHECK_FALSE(server.security->CheckClaim(worker, kPeer, {Role::kPs, 1}).ok());
  CHECK(server.refused(RefusalReason::kClaim) == 2);
}

TEST_CASE("replicas train and own variables, and the first one runs the chief") {
  const Server replica("cohort://lab/worker/1", /*replicas=*/true);
  CHECK(replica.security->CheckOwnTask({Role::kWorker, 1}).ok());
  const auto is = [&](const std::string& uri, Role role, int index) {
    return replica.security->CheckServer(replica.Issue(uri), "10.0.0.2:1", Task{role, index}).ok();
  };
  CHECK(is("cohort://lab/worker/2", Role::kPs, 2));
  CHECK(is("cohort://lab/worker", Role::kPs, 2));
  CHECK(is("cohort://lab/chief/0", Role::kWorker, 0));
  CHECK(is("cohort://lab/chief", Role::kPs, 0));
  CHECK_FALSE(is("cohort://lab/chief", Role::kPs, 1));
  CHECK_FALSE(is("cohort://lab/worker/2", Role::kPs, 1));
  for (const char* control : {"/cohort.v1.Worker/Control", "/cohort.v1.ParameterServer/Control"}) {
    CHECK(replica.Admit("cohort://lab/chief", control).ok());
    CHECK(replica.Admit("cohort://lab/worker/0", control).ok());
    CHECK_FALSE(replica.Admit("cohort://lab/worker/2", control).ok());
    CHECK_FALSE(replica.Admit("cohort://lab/client", control).ok());
  }
  CHECK(replica.Admit("cohort://lab/chief/0", kPushPull).ok());
}

TEST_CASE("the tasks of a host may share a directory of certificates") {
  const TlsTestFiles files;
  const std::string worker = files.Write("worker-1", "cohort://lab/worker/1");
  const std::string all = worker.substr(0, worker.rfind('/'));
  files.Write("ps", "cohort://lab/ps");
  files.Write("chief-0", "cohort://lab/chief/0");
  CHECK(Security::DirectoryOf({Role::kWorker, 1}, all, false) == all + "/worker-1");
  CHECK(Security::DirectoryOf({Role::kWorker, 1}, worker, false) == worker);
  CHECK(Security::DirectoryOf({Role::kPs, 7}, all, false) == all + "/ps");
  CHECK(Security::DirectoryOf({Role::kWorker, 0}, all, false) == all);
  CHECK(Security::DirectoryOf({Role::kWorker, 0}, all, true) == all + "/chief-0");
  CHECK(Security::DirectoryOf({Role::kWorker, 0}, "", true).empty());
}

TEST_CASE("a task starts only with a certificate of its own") {
  const Server server("cohort://lab/worker/3");
  CHECK(server.security->CheckOwnTask({Role::kWorker, 3}).ok());
  const absl::Status other = server.security->CheckOwnTask({Role::kWorker, 2});
  CHECK(ExitCodeOf(other) == ExitCode::kConfig);
  CHECK_THAT(Message(other), Contains("cohort://lab/worker/3") && Contains("worker:2"));
  CHECK_FALSE(server.security->CheckOwnTask({Role::kPs, 3}).ok());
  const auto missing = Security::Create({.tls_dir = "/nonexistent"});
  CHECK(ExitCodeOf(missing.status()) == ExitCode::kConfig);
  CHECK_THAT(Message(missing.status()), Contains("/nonexistent/tls.crt"));
}

TEST_CASE("TCP is TLS with certificates, unix sockets and metrics are not") {
  const Server server;
  CHECK(server.security->uses_tls("127.0.0.1:1"));
  CHECK(server.security->uses_tls("[::1]:1"));
  CHECK_FALSE(server.security->uses_tls("unix:/tmp/a"));
  CHECK(server.security->CheckServe("listening on", "10.0.0.1:1").ok());
  CHECK(server.security->CheckDial("10.0.0.1:1").ok());
  CHECK(server.security->CheckBind({"0.0.0.0", 1}).ok());
  CHECK_FALSE(Security::LoopbackOnly()->uses_tls("10.0.0.1:1"));
}

TEST_CASE("certificates that change are used, unless they are those of another task") {
  const Server server;
  const auto first = server.security->Material();
  CHECK(server.security->Material() == first);
  server.files.Write("own", "cohort://lab/ps/0");
  const auto second = server.security->Material();
  CHECK(second->version != first->version);
  server.files.Write("own", "cohort://lab/ps/1");
  CHECK(server.security->Material() == second);
}

TEST_CASE("refusals are metrics, and repeated ones share a log line") {
  std::vector<std::string> lines;
  LogOptions options;
  options.to_stderr = false;
  options.sink = [&](std::string_view line) { lines.emplace_back(line); };
  const auto log = Logger::Create(options);
  const Server server;
  server.security->LogTo(log->get());
  MetricsRegistry registry;
  server.security->AddMetrics(&registry);
  for (int port = 1; port <= 3; ++port) {
    CHECK_FALSE(server.security
                    ->AdmitClient(server.Issue("cohort://lab/worker/0"),
                                  "ipv4:10.0.0.1:" + std::to_string(port),
                                  "/cohort.v1.Worker/Control")
                    .ok());
  }
  CHECK_THAT(registry.Text(), Contains("cohort_refused_peers_total{reason=\"method\"} 3") &&
                                  Contains("cohort_refused_peers_total{reason=\"user\"} 0") &&
                                  Contains("cohort_certificate_expires_seconds"));
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("peer_refused reason=method address=ipv4:10.0.0.1:1 "
                                "identity=cohort://lab/worker/0 "
                                "method=/cohort.v1.Worker/Control"));
  server.security->LogTo(nullptr);
}

}  // namespace
}  // namespace cohort
