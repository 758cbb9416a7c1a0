#include "common/data/files/remote_file.h"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "common/base/log.h"
#include "common/data/data_test_files.h"
#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "common/data/fingerprint.h"
#include "common/data/input_file.h"
#include "common/os/child_process.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Message;

constexpr FetchOptions kNoPause = {.pause = std::chrono::milliseconds(1)};

// tests/data/file_server.py, and a cache directory of its own.
class FileServer {
 public:
  FileServer() {
    ::setenv("COHORT_CACHE_DIR", cache_.path().c_str(), 1);
    std::array<int, 2> pipe = {};
    REQUIRE(::pipe(pipe.data()) == 0);
    const char* const source = std::getenv("COHORT_SOURCE_DIR");
    auto child = ChildProcess::Start(
        {.argv = {"/usr/bin/env", "python3",
                  std::string(source == nullptr ? "." : source) + "/tests/data/file_server.py",
                  files_.path()},
         .stdout_fd = pipe[1]});
    ::close(pipe[1]);
    REQUIRE(Message(child.status()) == "");
    child_ = *std::move(child);
    for (char c = 0; ::read(pipe[0], &c, 1) == 1 && c != '\n';) port_ += c;
    ::close(pipe[0]);
    REQUIRE(!port_.empty());
  }

  std::string Address(const std::string& path) const {
    return "http://127.0.0.1:" + port_ + "/" + path;
  }
  const std::string& port() const { return port_; }
  const testing::TestDirectory& files() const { return files_; }
  const testing::TestDirectory& cache() const { return cache_; }
  std::string requests() const { return testing::ReadAllBytes(files_ / "requests.log"); }

 private:
  const testing::TestDirectory files_;
  const testing::TestDirectory cache_;
  std::unique_ptr<ChildProcess> child_;
  std::string port_;
};

std::string TextOf(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += fmt::format("{}\n", text.size());
  return text;
}

TEST_CASE("a remote file is fetched once, checked, and continued after an interruption") {
  const FileServer server;
  const std::string text = TextOf(3 << 20);
  server.files().Write("a.txt", text);
  const std::string digest = Sha256Hex(text);

  const auto path = FetchFile(server.Address("a.txt"), "");
  REQUIRE(Message(path.status()) == "");
  CHECK(testing::ReadAllBytes(*path) == text);
  CHECK(path->ends_with("-a.txt"));
  REQUIRE(FetchFile(server.Address("a.txt"), "").ok());
  CHECK(server.requests() == "/a.txt -\n");

  const auto cut = FetchFile(server.Address("cut/a.txt#sha256=" + digest), "");
  REQUIRE(Message(cut.status()) == "");
  CHECK(testing::ReadAllBytes(*cut) == text);
  CHECK(Contains(server.requests(),
                 fmt::format("/cut/a.txt -\n/cut/a.txt bytes={}-\n", text.size() / 2)));

  const auto moved = FetchFile(server.Address("gone/a.txt"), digest);
  REQUIRE(Message(moved.status()) == "");
  CHECK(testing::ReadAllBytes(*moved) == text);
}

TEST_CASE("a partial file of another version is not continued") {
  const FileServer server;
  server.files().Write("a.txt", TextOf(1000));
  const auto path = FetchFile(server.Address("a.txt"), "");
  REQUIRE(path.ok());
  std::filesystem::rename(*path, *path + ".part");
  testing::WriteAllBytes(*path + ".validator", "\"of another file\"");
  testing::WriteAllBytes(*path + ".part", "other text");
  REQUIRE(Message(FetchFile(server.Address("a.txt"), "").status()) == "");
  CHECK(testing::ReadAllBytes(*path) == TextOf(1000));
  CHECK(Contains(server.requests(), "/a.txt bytes=10-\n"));
}

TEST_CASE("errors of a server and wrong digests name the address") {
  const FileServer server;
  server.files().Write("a.txt", "abc");
  const auto error = [&](const std::string& path, const std::string& sha256 = "") {
    return FetchFile(server.Address(path), sha256, kNoPause).status();
  };
  CHECK(absl::IsNotFound(error("none.txt")));
  CHECK(Message(error("none.txt")) ==
        server.Address("none.txt") + ": the server answers 404; correct the address");
  CHECK(absl::IsUnavailable(error("busy/a.txt")));
  CHECK(Contains(Message(error("busy/a.txt")), "answers 503: Slow down"));
  CHECK(absl::IsDataLoss(error("a.txt", std::string(64, '0'))));
  CHECK(Contains(Message(error("a.txt", std::string(64, '0'))), "has sha256 ba7816bf"));
  CHECK(Contains(Message(error("a.txt#sha256=12")), "`sha256=` and 64 hexadecimal digits"));
  const auto refused = FetchFile("http://127.0.0.1:1/a", "", kNoPause);
  CHECK(absl::IsUnavailable(refused.status()));
  CHECK(Contains(Message(refused.status()), "http://127.0.0.1:1/a: cannot be fetched: "));
  const auto secret = FetchFile("http://me:secret@127.0.0.1:1/a?sig=secret", "", kNoPause);
  CHECK(Contains(Message(secret.status()), "http://127.0.0.1:1/a: cannot be fetched: "));
  CHECK(!Contains(Message(secret.status()), "secret"));
}

TEST_CASE("requests to a store with the API of S3 are signed") {
  const FileServer server;
  server.files().Write("a b.csv", "x\n1\n");
  ::setenv("AWS_ENDPOINT_URL", ("http://127.0.0.1:" + server.port()).c_str(), 1);
  ::setenv("AWS_REGION", "eu-test-1", 1);
  ::setenv("AWS_ACCESS_KEY_ID", "KEY", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
  ::setenv("AWS_SESSION_TOKEN", "TOKEN", 1);
  const auto path = FetchFile("s3://bucket/a b.csv", "");
  REQUIRE(Message(path.status()) == "");
  CHECK(testing::ReadAllBytes(*path) == "x\n1\n");
  CHECK(Contains(server.requests(), "/bucket/a%20b.csv"));
  ::setenv("AWS_SECRET_ACCESS_KEY", "WRONG", 1);
  const auto wrong = FetchFile("s3://bucket/other", "");
  CHECK(absl::IsPermissionDenied(wrong.status()));
  CHECK(Contains(Message(wrong.status()),
                 "s3://bucket/other: the server answers 403: SignatureDoesNotMatch"));
  // A signed request follows no redirection: its token would go along.
  ::setenv("AWS_ENDPOINT_URL", ("http://127.0.0.1:" + server.port() + "/gone").c_str(), 1);
  CHECK(Contains(Message(FetchFile("s3://bucket/x", "").status()),
                 "answers 302; a signed request follows no redirection: correct AWS_REGION"));
  CHECK(!Contains(server.requests(), "\n/x "));
  for (const char* bucket : {"evil.com?x", "a", "me@evil.com", "b:c", "-ab"}) {
    CHECK(Contains(Message(FetchFile(fmt::format("s3://{}/k", bucket), "").status()),
                   "the name of a bucket has 3 to 63 letters"));
  }
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  CHECK(Contains(Message(FetchFile("s3://bucket/x", "").status()), "need each other"));
  CHECK(Contains(Message(FetchFile("s3://bucket", "").status()), "s3://BUCKET/KEY"));
  for (const char* name :
       {"AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"}) {
    ::unsetenv(name);
  }
}

TEST_CASE("the signature of an address is neither shown nor a part of what is read") {
  const FileServer server;
  server.files().Write("a.csv", "x,y\n1,2\n3,z\n");
  const auto spec_of = [&](const std::string& query) {
    return testing::CsvSpec("http://me:pass@127.0.0.1:" + server.port() + "/a.csv" + query);
  };
  const v1::DatasetSpec one = spec_of("?sig=one");
  const auto dataset = Dataset::Open(one);
  REQUIRE(Message(dataset.status()) == "");
  CHECK((*dataset)->fingerprint().files(0).path() == server.Address("a.csv"));
  CHECK(ReadTheSame(one, spec_of("?sig=two")));
  v1::DatasetSpec labelled = one;
  labelled.set_label("y");
  CHECK(Contains(Message(Dataset::Open(labelled).status()),
                 server.Address("a.csv") + ": line 3: column \"y\": \"z\" is not a number"));
  CHECK(PublicPath("s3://b/k?versionId=3#sha256=00") == "s3://b/k");
  CHECK(PublicPath("what?.csv") == "what?.csv");
}

TEST_CASE("downloads and files of the cache are in the log") {
  const FileServer server;
  server.files().Write("a.txt", "abc");
  std::string lines;
  const auto log =
      Logger::Create({.to_stderr = false, .sink = [&](std::string_view line) { lines += line; }});
  REQUIRE(log.ok());
  const FetchOptions options = {log->get(), std::chrono::milliseconds(1)};
  REQUIRE(FetchFile(server.Address("a.txt"), "", options).ok());
  REQUIRE(FetchFile(server.Address("a.txt"), "", options).ok());
  CHECK(!FetchFile(server.Address("busy/a.txt"), "", options).ok());
  for (const char* event : {"data_fetching", "data_fetched", "data_from_cache"}) {
    CHECK(Contains(lines, fmt::format(" {} address={} file={}/", event, server.Address("a.txt"),
                                      server.cache().path())));
  }
  CHECK(Contains(lines, " data_fetching_again "));
}

TEST_CASE("sources read addresses as they read paths") {
  const FileServer server;
  server.files().Write("a.csv", "x,y\n1,2\n3,4\n");
  server.files().Write("a.jsonl.gz", testing::Gzip("{\"x\": 1}\n{\"x\": 2}\n"));
  const auto csv = Dataset::Open(testing::CsvSpec(server.Address("a.csv")), {.data_dir = "/none"});
  REQUIRE(Message(csv.status()) == "");
  CHECK((*csv)->num_records() == 2);
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf(
      "json_lines", {{"files", ConfigOf(std::vector<std::string>{server.Address("a.jsonl.gz")})}});
  const auto json = Dataset::Open(spec, {.data_dir = "/none"});
  REQUIRE(Message(json.status()) == "");
  CHECK((*json)->num_records() == 2);
}

}  // namespace
}  // namespace cohort
