#include "common/cluster/run_secret.h"

#include "common/base/exit_code.h"
#include "common/cluster/security.h"
#include "common/os/private_file_test_util.h"

namespace cohort {
namespace {

using Catch::Matchers::Contains;
using testing::Message;

TEST_CASE("a token is made from a private file of at least 16 bytes") {
  const testing::PrivateFile file("0123456789abcdef");
  const std::string& path = file.path;
  // printf %s 0123456789abcdef | sha256sum
  CHECK(ReadSecretToken(path).value() ==
        "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f");
  REQUIRE(CreatePrivateFile(path + ".line", "0123456789abcdef\r\n").ok());
  CHECK(ReadSecretToken(path + ".line").value() == ReadSecretToken(path).value());
  REQUIRE(CreatePrivateFile(path + ".short", "0123456789abcde\n").ok());
  for (const std::string& bad : {path + ".short", file.directory / "none"}) {
    const absl::Status status = ReadSecretToken(bad).status();
    CHECK_THAT(Message(status), Contains(bad) && Contains("--secret_file"));
    CHECK(ExitCodeOf(status) == ExitCode::kConfig);
  }
  file.SetMode(0644);
  CHECK_THAT(Message(ReadSecretToken(path).status()), Contains("chmod 600"));
}

TEST_CASE("each new secret is another one") {
  testing::TestDirectory directory;
  const std::string path = directory / "secret";
  REQUIRE(WriteNewSecret(path).ok());
  const std::string first = ReadSecretToken(path).value();
  REQUIRE(WriteNewSecret(path).ok());
  CHECK(ReadSecretToken(path).value() != first);
  CHECK(ExitCodeOf(WriteNewSecret(directory / "none/secret")) == ExitCode::kCantCreate);
}

TEST_CASE("a stream needs the secret of the run, and each refusal is counted") {
  testing::TestDirectory directory;
  const std::string path = directory / "secret";
  REQUIRE(WriteNewSecret(path).ok());
  const auto security = *Security::Create({.secret_file = path});
  CHECK(security->CheckSecret(security->secret_token(), "unix:", "/m").ok());
  CHECK_THAT(Message(security->CheckSecret("", "unix:", "/m")),
             Contains("does not carry") && Contains("--secret_file"));
  CHECK_THAT(Message(security->CheckSecret(std::string(64, '0'), "unix:", "/m")),
             Contains("another secret"));
  CHECK(security->refusals()->count(RefusalReason::kSecret) == 2);
  CHECK(Security::LoopbackOnly()->CheckSecret("", "unix:", "/m").ok());
  CHECK(ExitCodeOf(Security::Create({.secret_file = directory / "none"}).status()) ==
        ExitCode::kConfig);
}

}  // namespace
}  // namespace cohort
