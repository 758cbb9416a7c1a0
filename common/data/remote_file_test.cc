#include "common/data/files/remote_file.h"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "common/data/data_test_files.h"
#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "common/data/input_file.h"
#include "common/os/child_process.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Message;

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
    return FetchFile(server.Address(path), sha256).status();
  };
  CHECK(absl::IsNotFound(error("none.txt")));
  CHECK(Message(error("none.txt")) ==
        server.Address("none.txt") + ": the server answers 404; correct the address");
  CHECK(absl::IsUnavailable(error("busy/a.txt")));
  CHECK(Contains(Message(error("busy/a.txt")), "answers 503: Slow down"));
  CHECK(absl::IsDataLoss(error("a.txt", std::string(64, '0'))));
  CHECK(Contains(Message(error("a.txt", std::string(64, '0'))), "has sha256 ba7816bf"));
  CHECK(Contains(Message(error("a.txt#sha256=12")), "`sha256=` and 64 hexadecimal digits"));
  const auto refused = FetchFile("http://127.0.0.1:1/a", "");
  CHECK(absl::IsUnavailable(refused.status()));
  CHECK(Contains(Message(refused.status()), "http://127.0.0.1:1/a: cannot be fetched: "));
  CHECK(!Contains(Message(FetchFile("http://me:secret@127.0.0.1:1/a", "").status()), "secret"));
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
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  CHECK(Contains(Message(FetchFile("s3://bucket/x", "").status()), "need each other"));
  CHECK(Contains(Message(FetchFile("s3://bucket", "").status()), "s3://BUCKET/KEY"));
  for (const char* name :
       {"AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"}) {
    ::unsetenv(name);
  }
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
