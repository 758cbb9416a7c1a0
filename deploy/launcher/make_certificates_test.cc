#include "deploy/launcher/make_certificates.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <ctime>
#include <filesystem>

#include "common/base/exit_code.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"
#include "common/tls/tls_directory.h"

namespace cohort {
namespace {

using Catch::Matchers::Contains;
using testing::Message;
using testing::ReadAllBytes;
using testing::TestDirectory;

constexpr char kCluster[] = "name: lab\ncluster:\n  ps: [\"a:1\"]\n  worker: [\"a:2\", \"b:2\"]\n";

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

std::string UriOf(const std::string& directory) {
  const auto facts = ReadCertificate(ReadAllBytes(TlsPaths(directory).certificate));
  REQUIRE(facts.ok());
  REQUIRE(facts->uris.size() == 1);
  return facts->uris[0];
}

TEST_CASE("every task gets a certificate of the CA with its own identity") {
  const TestDirectory directory;
  const std::string certs = directory / "certs";
  const CertificateOptions options{
      .cluster_file = directory.Write("cluster.yaml", kCluster), .directory = certs, .days = 7};
  const auto made = MakeCertificates(options);
  REQUIRE(made.ok());
  CHECK_THAT(*made, Contains("worker-1: cohort://lab/worker/1, 7 days"));
  const std::string ca = ReadAllBytes(certs + "/ca/ca.crt");
  for (const auto& [name, identity] :
       {std::pair("ps-0", "ps/0"), std::pair("worker-0", "worker/0"),
        std::pair("worker-1", "worker/1"), std::pair("chief-0", "chief/0"),
        std::pair("evaluator-0", "evaluator/0"), std::pair("client", "client")}) {
    INFO(name);
    const std::string task = certs + "/" + name;
    CHECK(UriOf(task) == std::string("cohort://lab/") + identity);
    CHECK(TlsDirectory::Open(task).ok());
    CHECK(ReadAllBytes(TlsPaths(task).ca) == ca);
    CHECK(ModeOf(TlsPaths(task).key) == 0600);
    CHECK(ModeOf(task) == 0700);
    const auto verdict = VerifyCertificate({.leaf = ReadAllBytes(TlsPaths(task).certificate)}, ca,
                                           CertificateUse::kServer, std::time(nullptr));
    CHECK(verdict.trust == CertificateTrust::kTrusted);
    const double days = std::difftime(verdict.facts.not_after, std::time(nullptr)) / 86400;
    CHECK(days == Approx(7).margin(0.1));
  }
  CHECK(ModeOf(certs + "/ca/ca.key") == 0600);
}

TEST_CASE("existing certificates stay unless they are renewed, and the CA stays") {
  const TestDirectory directory;
  const std::string certs = directory / "certs";
  CertificateOptions options{
      .cluster_file = directory.Write("cluster.yaml", kCluster), .directory = certs, .days = 7};
  REQUIRE(MakeCertificates(options).ok());
  const std::string ca = ReadAllBytes(certs + "/ca/ca.crt");
  const std::string key = ReadAllBytes(certs + "/ps-0/tls.key");
  const auto again = MakeCertificates(options);
  CHECK(ExitCodeOf(again.status()) == ExitCode::kCantCreate);
  CHECK_THAT(Message(again.status()), Contains("--renew"));
  CHECK(ReadAllBytes(certs + "/ps-0/tls.key") == key);
  std::filesystem::remove_all(certs + "/ps-0");
  REQUIRE(MakeCertificates(options).ok());  // what is missing
  CHECK(ReadAllBytes(certs + "/ps-0/tls.key") != key);
  CHECK(ReadAllBytes(certs + "/ps-0/ca.crt") == ca);
  options.renew = true;
  REQUIRE(MakeCertificates(options).ok());
  CHECK(ReadAllBytes(certs + "/ca/ca.crt") == ca);
  CHECK(ReadAllBytes(certs + "/ps-0/ca.crt") == ca);
  CHECK(ReadAllBytes(certs + "/ps-0/tls.key") != key);
  CHECK_FALSE(std::filesystem::exists(certs + "/ps-0.new"));
  options.days = 0;
  CHECK(ExitCodeOf(MakeCertificates(options).status()) == ExitCode::kUsage);
}

TEST_CASE("a certificate per role is for all tasks of the role") {
  const TestDirectory directory;
  const std::string certs = directory / "certs";
  REQUIRE(MakeCertificates({.cluster_file = directory.Write("cluster.yaml", kCluster),
                            .directory = certs,
                            .by_role = true})
              .ok());
  for (const char* role : {"chief", "worker", "ps", "evaluator", "client"}) {
    CHECK(UriOf(certs + "/" + role) == std::string("cohort://lab/") + role);
    CHECK(TlsDirectory::Open(certs + "/" + role).ok());
  }
  CHECK_FALSE(std::filesystem::exists(certs + "/worker-0"));
}

TEST_CASE("among replicas the index is the number of the replica") {
  const TestDirectory directory;
  const std::string certs = directory / "certs";
  REQUIRE(MakeCertificates(
              {.cluster_file = directory.Write(
                   "cluster.yaml",
                   "name: lab\ncluster:\n  chief: [\"a:1\"]\n  worker: [\"b:1\", \"c:1\"]\n"),
               .directory = certs})
              .ok());
  CHECK(UriOf(certs + "/chief-0") == "cohort://lab/chief/0");
  CHECK(UriOf(certs + "/worker-0") == "cohort://lab/worker/1");
  CHECK(UriOf(certs + "/worker-1") == "cohort://lab/worker/2");
}

}  // namespace
}  // namespace cohort
