#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/clock_test_util.h"
#include "common/base/crc32c.h"
#include "common/base/exit_code.h"
#include "common/report/progress.h"
#include "common/report/reporter.h"
#include "common/report/summary_values.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;
using Catch::StartsWith;

TEST_CASE("crc32c agrees with RFC 3720") {
  REQUIRE(Crc32c("123456789") == 0xe3069283);
  REQUIRE(Crc32c(std::string(32, '\0')) == 0x8a9136aa);
  REQUIRE(Crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  REQUIRE(Crc32c("") == 0);
  // Undoing rotation and offset restores the checksum.
  const uint32_t rotated = MaskedCrc32c("123456789") - 0xa282ead8;
  REQUIRE(((rotated >> 17) | (rotated << 15)) == 0xe3069283);
}

// The events of a file, which must be complete.
std::vector<std::string> ReadEvents(const std::string& path) {
  const std::string bytes = testing::ReadAllBytes(path);
  size_t at = 0;
  std::vector<std::string> events;
  while (at < bytes.size()) {
    uint64_t length = 0;
    REQUIRE(bytes.size() - at >= 16);
    std::memcpy(&length, bytes.data() + at, 8);
    REQUIRE(bytes.size() - at - 16 >= length);
    uint32_t length_crc = 0, data_crc = 0;
    std::memcpy(&length_crc, bytes.data() + at + 8, 4);
    REQUIRE(length_crc == MaskedCrc32c(std::string_view(bytes).substr(at, 8)));
    events.push_back(bytes.substr(at + 12, length));
    std::memcpy(&data_crc, bytes.data() + at + 12 + length, 4);
    REQUIRE(data_crc == MaskedCrc32c(events.back()));
    at += length + 16;
  }
  return events;
}

TEST_CASE("an event file consists of framed records and begins with its version") {
  testing::TestDirectory dir;
  ManualClock clock;
  EventFileWriter writer(dir.path(), &clock);
  REQUIRE(writer.Add(7, {{"epoch_loss", 0.5}}).ok());
  const std::vector<std::string> events = ReadEvents(writer.path());
  REQUIRE(events.size() == 2);
  REQUIRE_THAT(events[0], Contains("brain.Event:2"));
  // step = 7; summary { value { tag: "epoch_loss" simple_value: 0.5 } }
  REQUIRE_THAT(events[1], Contains(std::string("\x10\x07\x2a\x13\x0a\x11\x0a\x0a") + "epoch_loss" +
                                   std::string("\x15\x00\x00\x00\x3f", 5)));
}

TEST_CASE("metrics are reported as JSON lines and event files") {
  testing::TestDirectory dir;
  ManualClock clock;
  const std::string log_dir = dir.path() + "/a/b";
  {
    auto reporter = Reporter::Open(log_dir, &clock);
    REQUIRE(reporter.ok());
    REQUIRE(
        (*reporter)->Report({"train", "epoch", 1, 200, {{"loss", 0.25}, {"accuracy", 1}}}).ok());
    MetricsRecord record{"validation", "epoch", 1, 200, {{"loss", std::nan("")}}};
    record.figures = {{"staleness/mean", 1.5}};
    record.steps_per_second = 50;
    REQUIRE((*reporter)->Report(record).ok());
  }
  REQUIRE(std::filesystem::exists(log_dir + "/train"));
  REQUIRE(std::filesystem::exists(log_dir + "/validation"));
  REQUIRE(
      testing::ReadAllBytes(log_dir + "/metrics.jsonl") ==
      R"({"time":1767225600.0,"set":"train","kind":"epoch","epoch":1,"step":200,"loss":0.25,"accuracy":1.0}
{"time":1767225600.0,"set":"validation","kind":"epoch","epoch":1,"step":200,"loss":null,"staleness/mean":1.5,"steps_per_second":50.0}
)");
}

// Hidden: event_file_test.py runs it and reads the files with TensorBoard.
TEST_CASE("files for TensorBoard", "[.files]") {
  const char* directory = std::getenv("COHORT_TEST_OUTPUT");
  REQUIRE(directory != nullptr);
  RealClock clock;
  auto reporter = Reporter::Open(directory, &clock);
  REQUIRE(reporter.ok());
  for (uint64_t step = 1; step <= 3; ++step) {
    const double loss = 1.0 / static_cast<double>(step);
    REQUIRE((*reporter)->Report({"train", "step", 0, step * 100, {{"loss", loss}}}).ok());
  }
  REQUIRE(
      (*reporter)->Report({"train", "epoch", 1, 300, {{"loss", 0.5}, {"accuracy", 0.75}}}).ok());
  REQUIRE((*reporter)->Report({"validation", "epoch", 1, 300, {{"loss", 0.625}}}).ok());
  // Another incarnation of the process reports to the same directory.
  auto again = Reporter::Open(directory, &clock);
  REQUIRE((*again)->Report({"train", "epoch", 2, uint64_t{1} << 40, {{"loss", -1}}}).ok());

  EventFileWriter more(std::string(directory) + "/more", &clock);
  Histogram histogram;
  for (int i = 0; i <= 60; ++i) histogram.AddRange(i);
  for (int i = 0; i <= 60; ++i) histogram.Add(i);
  Histogram equal;
  for (int i = 0; i < 4; ++i) equal.AddRange(2);
  for (int i = 0; i < 4; ++i) equal.Add(2);
  REQUIRE(more.AddValues(7, {HistogramValue("dense/kernel/histogram", histogram),
                             HistogramValue("equal", equal), HistogramValue("none", {})})
              .ok());
  REQUIRE(
      more.AddGraph(GraphDefOf(
                        {{.name = "x", .op = "InputLayer", .inputs = {}, .device = {}, .dims = {4}},
                         {.name = "dense",
                          .op = "Dense",
                          .inputs = {"x"},
                          .device = "cpu:1",
                          .dims = {3},
                          .params = 15}}))
          .ok());
  REQUIRE(
      more.AddValues(0, {HparamsBegin({{"seed", 1.0}, {"amsgrad", false}, {"loss", "mse"}}, 1000)})
          .ok());
  REQUIRE(more.AddValues(0, {HparamsEnd(2000)}).ok());
}

TEST_CASE("a torn last line is completed before the next one") {
  testing::TestDirectory dir;
  ManualClock clock;
  std::ofstream(dir.path() + "/metrics.jsonl") << "{\"torn\":";
  auto reporter = Reporter::Open(dir.path(), &clock);
  REQUIRE((*reporter)->Report({"train", "step", 0, 1, {}}).ok());
  REQUIRE_THAT(testing::ReadAllBytes(dir.path() + "/metrics.jsonl"),
               StartsWith("{\"torn\":\n{\"time\":"));
}

TEST_CASE("the error of a failed write names the file") {
  testing::TestDirectory dir;
  ManualClock clock;
  std::ofstream(dir.path() + "/file") << "x";
  const auto reporter = Reporter::Open(dir.path() + "/file/logs", &clock);
  REQUIRE_THAT(std::string(reporter.status().message()), Contains(dir.path() + "/file/logs"));
}

TEST_CASE("a file of the wrong type in the place of a metrics file is refused at once") {
  testing::TestDirectory dir;
  ManualClock clock;
  const std::string lines = dir / "metrics.jsonl";
  const auto refused = [&](const std::string& kind) {
    const absl::Status status = Reporter::Open(dir.path(), &clock).status();
    CHECK(ExitCodeOf(status) == ExitCode::kCantCreate);
    CHECK_THAT(std::string(status.message()),
               StartsWith(lines + " is " + kind + ", not a regular file."));
    std::filesystem::remove(lines);
  };
  REQUIRE(::mkfifo(lines.c_str(), 0600) == 0);
  refused("a FIFO");
  std::filesystem::create_directory(lines);
  refused("a directory");
  std::filesystem::create_symlink("/dev/full", lines);
  refused("a device");

  auto reporter = Reporter::Open(dir.path(), &clock);
  REQUIRE(reporter.ok());
  REQUIRE(::mkfifo((dir / "train").c_str(), 0600) == 0);
  const absl::Status status = (*reporter)->Report({"train", "step", 0, 1, {}});
  CHECK_THAT(std::string(status.message()), Contains(dir / "train"));
  // The other file is still written.
  CHECK_THAT(testing::ReadAllBytes(lines), Catch::EndsWith("\n"));
  std::filesystem::remove(dir / "train");
  CHECK((*reporter)->Report({"train", "step", 0, 2, {}}).ok());
}

TEST_CASE("a full disk leaves readable files and one error") {
  testing::TestDirectory dir;
  ManualClock clock;
  auto reporter = Reporter::Open(dir.path(), &clock);
  REQUIRE(reporter.ok());
  const MetricsRecord record{"train", "step", 1, 1, {{"loss", 0.5}}};
  absl::Status first;
  const auto fails = [&](rlim_t bytes) {
    const testing::FullDisk full(bytes);
    for (int i = 0; i < 3; ++i) {
      clock.Advance(std::chrono::seconds(2));
      const absl::Status status = (*reporter)->Report(record);
      REQUIRE(status.code() == absl::StatusCode::kResourceExhausted);
      if (first.ok()) first = status;
      REQUIRE(status == first);
    }
  };
  fails(5);   // less than any record
  fails(45);  // the event file's first record, and a part of the next
  REQUIRE((*reporter)->Report(record).ok());
  fails(130);  // a part of the second line
  REQUIRE((*reporter)->Report(record).ok());
  REQUIRE_THAT(testing::ReadAllBytes(dir / "metrics.jsonl"),
               Catch::EndsWith("\n" + ToJsonLine(record, clock.UnixMicros()) + "\n"));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "train")) {
    ++files;
    CHECK(ReadEvents(entry.path()).size() >= 3);
  }
  REQUIRE(files == 1);
}

TEST_CASE("a torn line from a full disk does not join the line of another process") {
  testing::TestDirectory dir;
  ManualClock clock;
  // A chief and an evaluator may share a directory.
  auto first = Reporter::Open(dir.path(), &clock);
  auto second = Reporter::Open(dir.path(), &clock);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  REQUIRE((*second)->Report({"validation", "checkpoint", 1, 1, {}}).ok());
  const auto size = std::filesystem::file_size(dir / "metrics.jsonl");
  {
    const testing::FullDisk full(size + 5);
    REQUIRE(!(*first)->Report({"train", "step", 1, 1, {}}).ok());
  }
  const MetricsRecord record{"validation", "checkpoint", 1, 2, {}};
  REQUIRE((*second)->Report(record).ok());
  REQUIRE_THAT(testing::ReadAllBytes(dir / "metrics.jsonl"),
               Catch::EndsWith("\n" + ToJsonLine(record, clock.UnixMicros()) + "\n"));
}

TEST_CASE("the keys of a line that are no metrics are known, so that no metric takes their names") {
  MetricsRecord record{.metrics = {{"accuracy", 0.5}}, .figures = {{"sync/dropped", 1}}};
  record.seconds = record.steps_per_second = 1;
  const std::string line = ToJsonLine(record, 1'000'000);
  size_t keys = 0;
  for (size_t at = line.find('"'); at != std::string::npos; at = line.find('"', at + 1)) {
    const size_t end = line.find('"', at + 1);
    const std::string key = line.substr(at + 1, end - at - 1);
    at = end;
    if (line[end + 1] != ':') continue;
    ++keys;
    CHECK(IsReportKey(key) == (key != "accuracy"));
  }
  CHECK(keys == 9);
}

TEST_CASE("progress reads like a sentence") {
  Progress p{2, 5, 120, 240, 830.4, {{"loss", 0.32149}, {"accuracy", 0.88}}, ""};
  REQUIRE(FormatProgress(p) ==
          "epoch 2/5 [==========>         ] 120/240, 830 steps/s, loss 0.3215, accuracy 0.8800");
  p = {1, 1, 240, 240, 0, {}, "waiting"};
  REQUIRE(FormatProgress(p) == "epoch 1/1 [====================] 240/240, waiting");
  p = {1, 1, 3, 0, 0, {}, ""};
  REQUIRE(FormatProgress(p) == "epoch 1/1 step 3");
  p = {.epoch = 2, .epochs = 5, .steps_per_second = 2, .metrics = {{"loss", 1}}};
  p.seconds_left = 124.2;
  REQUIRE(FormatProgress(p) == "epoch 2/5 step 0, 2 steps/s, 2 min 05 s left, loss 1.0000");
}

TEST_CASE("a time has the two units that matter") {
  CHECK(FormatSeconds(0.123) == "0.12 s");
  CHECK(FormatSeconds(2) == "2 s");
  CHECK(FormatSeconds(59.4) == "59 s");
  CHECK(FormatSeconds(59.7) == "1 min 00 s");
  CHECK(FormatSeconds(3599) == "59 min 59 s");
  CHECK(FormatSeconds(7530) == "2 h 05 min");
  CHECK(FormatSeconds(3 * 86400 + 4 * 3600 + 59) == "3 d 4 h");
  CHECK(FormatSeconds(1e300) == "a very long time");
  CHECK(FormatSeconds(NAN) == "a very long time");
}

TEST_CASE("metrics are written with the loss first, small values as powers of ten") {
  REQUIRE(FormatMetrics({{"accuracy", 1}, {"loss", 8.673e-7}}) ==
          "loss 8.6730e-07, accuracy 1.0000");
  REQUIRE(FormatMetrics({{"loss", 0}, {"a", 0.25}, {"b", -2e-4}, {"c", NAN}}) ==
          "loss 0.0000, a 0.2500, b -2.0000e-04, c nan");
  REQUIRE(FormatMetrics({}).empty());
}

TEST_CASE("a terminal has one line rewritten; other outputs get lines periodically") {
  ManualClock clock;
  std::string shown;
  const auto output = [&](std::string_view text) { shown += text; };
  const Progress p{1, 1, 3, 0, 0, {}, ""};
  {
    ProgressLine line(&clock, {.terminal = true, .width = 12}, output);
    line.Update(p);
    line.Update(p);  // too soon
    REQUIRE(shown == "\r\x1b[Kepoch 1/1 s");
    clock.Advance(std::chrono::milliseconds(100));
    line.Line("epoch 1 done");
    REQUIRE_THAT(shown, Catch::EndsWith("\r\x1b[Kepoch 1 done\n"));
    line.Update(p);
  }
  REQUIRE(shown.back() == '\n');
  shown.clear();
  ProgressLine line(&clock, {.terminal = false}, output);
  line.Update(p);
  clock.Advance(std::chrono::seconds(4));
  REQUIRE_FALSE(line.due());
  line.Update(p);
  REQUIRE(shown == "epoch 1/1 step 3\n");
  clock.Advance(std::chrono::seconds(1));
  line.Update(p);
  line.Line("end");
  REQUIRE(shown == "epoch 1/1 step 3\nepoch 1/1 step 3\nend\n");
}

}  // namespace
}  // namespace cohort
