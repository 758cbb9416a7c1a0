#include "common/tls/tls_directory.h"

#include <catch2/catch.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "common/base/status.h"
#include "common/testing/test_directory.h"
#include "common/tls/certificate_maker.h"

namespace cohort {
namespace {

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

struct Files {
  testing::TestDirectory directory;
  IssuedCertificate ca = *MakeAuthority({.common_name = "lab", .days = 1}, std::time(nullptr));

  IssuedCertificate Issue(const std::string& uri) {
    return *IssueCertificate(ca, {.common_name = "x", .uri = uri, .days = 1}, std::time(nullptr));
  }
  void Put(const IssuedCertificate& issued) {
    const TlsPaths paths(directory.path());
    Write(paths.certificate, issued.certificate);
    Write(paths.key, issued.key);
    Write(paths.ca, ca.certificate);
  }
};

TEST_CASE("changed files are read again, and half of a change is not used") {
  Files files;
  const TlsPaths paths(files.directory.path());
  files.Put(files.Issue("cohort://lab/ps/0"));
  const auto directory = TlsDirectory::Open(files.directory.path());
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
  Write(paths.certificate, next.certificate);  // the old key does not fit
  CHECK((*directory)->Current(observer) == first);
  REQUIRE(changes.size() == 1);
  CHECK_FALSE(changes[0].ok());
  Write(paths.key, next.key);
  const auto second = (*directory)->Current(observer);
  CHECK(second->version != first->version);
  CHECK(second->facts.uris == std::vector<std::string>{"cohort://lab/ps/1"});
  REQUIRE(changes.size() == 2);
  CHECK(changes[1].ok());

  observer.check = [](const TlsMaterial&) { return PermissionDenied("another task"); };
  files.Put(files.Issue("cohort://lab/ps/2"));
  CHECK((*directory)->Current(observer) == second);
  std::filesystem::remove(paths.ca);
  CHECK((*directory)->Current(observer) == second);
}

TEST_CASE("an error names the file") {
  Files files;
  const TlsPaths paths(files.directory.path());
  files.Put(files.Issue("cohort://lab/ps/0"));
  const auto message = [&] {
    return std::string(TlsDirectory::Open(files.directory.path()).status().message());
  };
  Write(paths.ca, "no PEM");
  CHECK(message().starts_with(paths.ca));
  std::filesystem::remove(paths.ca);
  CHECK(message().starts_with(paths.ca));
  files.Put(files.Issue("cohort://lab/ps/0"));
  Write(paths.key, files.Issue("cohort://lab/ps/1").key);
  CHECK(message().starts_with(paths.key));
}

}  // namespace
}  // namespace cohort
