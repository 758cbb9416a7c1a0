#include "common/tls/tls_directory.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/status.h"
#include "common/testing/status_test_util.h"
#include "common/tls/tls_test_files.h"

namespace cohort {
namespace {

using testing::TlsTestFiles;

TEST_CASE("changed files are read again, and half of a change is not used") {
  const TlsTestFiles files;
  const std::string path = files.Write("a", "cohort://lab/ps/0");
  const TlsPaths paths(path);
  const auto directory = TlsDirectory::Open(path);
  REQUIRE(directory.ok());
  std::vector<absl::Status> changes;
  TlsDirectory::Observer observer;
  observer.on_change = [&](const absl::Status& status, const TlsMaterial&) {
    changes.push_back(status);
  };
  const auto first = (*directory)->Current(observer);
  CHECK(first == (*directory)->Current(observer));
  CHECK(changes.empty());

  const IssuedCertificate next = files.Issue("cohort://lab/ps/1");
  TlsTestFiles::Replace(paths.certificate, next.certificate);  // the old key does not fit
  CHECK((*directory)->Current(observer) == first);
  REQUIRE(changes.size() == 1);
  CHECK_FALSE(changes[0].ok());
  TlsTestFiles::Replace(paths.key, next.key);
  const auto second = (*directory)->Current(observer);
  CHECK(second->version != first->version);
  CHECK(second->facts.uris == std::vector<std::string>{"cohort://lab/ps/1"});
  REQUIRE(changes.size() == 2);
  CHECK(changes[1].ok());

  observer.check = [](const TlsMaterial&) { return PermissionDenied("another task"); };
  files.Write("a", "cohort://lab/ps/2");
  CHECK((*directory)->Current(observer) == second);
  std::filesystem::remove(paths.ca);
  CHECK((*directory)->Current(observer) == second);
}

TEST_CASE("an error names the file") {
  const TlsTestFiles files;
  const std::string path = files.Write("a", "cohort://lab/ps/0");
  const TlsPaths paths(path);
  const auto message = [&] { return testing::Message(TlsDirectory::Open(path).status()); };
  TlsTestFiles::Replace(paths.ca, "no PEM");
  CHECK(message().starts_with(paths.ca));
  std::filesystem::remove(paths.ca);
  CHECK(message().starts_with(paths.ca));
  files.Write("a", "cohort://lab/ps/0");
  TlsTestFiles::Replace(paths.key, files.Issue("cohort://lab/ps/1").key);
  CHECK(message().starts_with(paths.key));
}

}  // namespace
}  // namespace cohort
