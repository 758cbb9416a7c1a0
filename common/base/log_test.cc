#include "common/base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <thread>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

struct Captured {
  std::vector<std::string> lines;
  std::unique_ptr<Logger> log;

  explicit Captured(LogLevel level = LogLevel::kInfo) {
    LogOptions options;
    options.level = level;
    options.role = "worker";
    options.index = 2;
    options.to_stderr = false;
    options.sink = [this](std::string_view line) { lines.emplace_back(line); };
    log = std::move(*Logger::Create(options));
  }
  // The last line without its timestamp.
  std::string last() const { return lines.back().substr(lines.back().find(' ') + 1); }
};

TEST_CASE("an event is one line of time, level, task, word and fields") {
  Captured c;
  c.log->Info("closure_finished", {{"id", uint64_t{17}},
                                   {"attempt", -1},
                                   {"seconds", 0.25},
                                   {"late", false},
                                   {"peer", "ipv4:127.0.0.1:1"}});
  REQUIRE(c.last() ==
          "info worker:2 closure_finished id=17 attempt=-1 seconds=0.25 late=false "
          "peer=ipv4:127.0.0.1:1");
  const std::regex time(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z .*)");
  REQUIRE(std::regex_match(c.lines[0], time));
}

TEST_CASE("a value cannot break its line") {
  Captured c;
  c.log->Warning("odd",
                 {{"a", "two words"}, {"b", ""}, {"c", "q\"=\\\n\x01"}, {"d", std::string("x")}});
  REQUIRE(c.last() == R"(warning worker:2 odd a="two words" b="" c="q\"=\\\n\u0001" d=x)");
  c.log->Warning("odd",
                 {{"a", "Größe"}, {"b", "\xc2\x9bm"}, {"c", "\x9bm"}, {"d", "\xe2\x80\xae"}});
  REQUIRE(c.last() == R"(warning worker:2 odd a=Größe b="\u009bm" c="\udc9bm" d="\u202e")");
}

TEST_CASE("events below the level are left out") {
  Captured c(LogLevel::kWarning);
  c.log->Info("quiet");
  REQUIRE(c.lines.empty());
  REQUIRE_FALSE(c.log->enabled(LogLevel::kInfo));
  c.log->Failure(LogLevel::kError, "lost", Unavailable("gone away"));
  REQUIRE(c.last() == "error worker:2 lost code=UNAVAILABLE message=\"gone away\"");
  Logger::Discard()->Error("nowhere");
}

TEST_CASE("a FIFO as log file is used if it has a reader, and refused otherwise") {
  const testing::TestDirectory directory;
  LogOptions options;
  options.to_stderr = false;
  options.file = directory / "fifo";
  REQUIRE(::mkfifo(options.file.c_str(), 0600) == 0);
  const absl::Status refused = Logger::Create(options).status();
  REQUIRE(ExitCodeOf(refused) == ExitCode::kCantCreate);
  REQUIRE(testing::Contains({refused.message().data(), refused.message().size()}, "has no reader"));
  const int reader = ::open(options.file.c_str(), O_RDONLY | O_NONBLOCK);
  (*Logger::Create(options))->Info("heard");
  char line[200] = {};
  REQUIRE(::read(reader, line, sizeof(line) - 1) > 0);
  REQUIRE(testing::Contains(line, " heard"));
  ::close(reader);
}

TEST_CASE("a pipe that nobody reads stops nobody who logs") {
  const testing::TestDirectory directory;
  LogOptions options;
  options.to_stderr = false;
  options.file = directory / "fifo";
  REQUIRE(::mkfifo(options.file.c_str(), 0600) == 0);
  UniqueFd reader(::open(options.file.c_str(), O_RDONLY | O_NONBLOCK));
  auto log = std::move(*Logger::Create(options));
  const std::string text(1000, 'x');
  constexpr int kLines = 10'000;  // 10 MB: more than the pipe and the logger hold
  for (int i = 0; i < kLines; ++i) log->Info("event", {{"i", i}, {"text", text}});
  // Now somebody reads again.
  std::string all;
  std::thread reads([&] {
    REQUIRE(fcntl(reader.get(), F_SETFL, 0) == 0);
    std::vector<char> buffer(1 << 16);
    for (ssize_t n; (n = ::read(reader.get(), buffer.data(), buffer.size())) > 0;) {
      all.append(buffer.data(), static_cast<size_t>(n));
    }
  });
  log.reset();
  reads.join();
  CHECK(testing::Contains(all, " i=0 "));
  CHECK(testing::Contains(all, "lines of this log were dropped here"));
  CHECK(testing::Contains(all, fmt::format(" i={} ", kLines - 1)));
}

TEST_CASE("level names go both ways") {
  for (const auto level : {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    REQUIRE(LogLevelFromName(LogLevelName(level)) == level);
  }
  REQUIRE_FALSE(LogLevelFromName("loud").has_value());
}

TEST_CASE("a file also gets the lines, and one that cannot be created is an error") {
  const testing::TestDirectory directory;
  LogOptions options;
  options.to_stderr = false;
  options.file = directory / "log";
  {
    auto log = Logger::Create(options);
    REQUIRE(log.ok());
    (*log)->Info("hello");
  }
  std::string line;
  std::ifstream file(options.file);
  std::getline(file, line);
  REQUIRE_THAT(line, Catch::EndsWith(" info - hello"));
  options.file = options.file + "/below_a_file";
  const auto bad = Logger::Create(options);
  REQUIRE_THAT(std::string(bad.status().message()), Catch::Contains(options.file));
}

TEST_CASE("threads do not mix their lines") {
  Captured c;
  const auto work = [&](const char* who) {
    for (int i = 0; i < 200; ++i) c.log->Info("tick", {{"who", who}, {"i", i}});
  };
  std::thread a(work, "a"), b(work, "b");
  a.join();
  b.join();
  REQUIRE(c.lines.size() == 400);
  const std::regex whole(R"(\S+ info worker:2 tick who=[ab] i=\d+)");
  for (const auto& line : c.lines) REQUIRE(std::regex_match(line, whole));
}

}  // namespace
}  // namespace cohort
