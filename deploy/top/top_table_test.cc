#include "deploy/top/top_table.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace cohort {
namespace {

using Catch::Contains;
using nlohmann::json;

json Worker(uint64_t steps) {
  return {{"address", "10.0.0.1:4701"},
          {"connected", true},
          {"steps", steps},
          {"closures", steps / 10},
          {"applied", steps * 2},
          {"sum_staleness", steps * 3},
          {"in_flight", 2},
          {"silent_seconds", 0.25},
          {"heard_seconds", 0.5},
          {"resident_bytes", 50 << 20},
          {"sent_bytes", steps},
          {"received_bytes", steps * 4096}};
}

json Server(uint64_t pushes) {
  return {{"address", "10.0.0.2:4711"},  {"connected", true}, {"pushes", pushes},
          {"heard_seconds", 90},         {"sent_bytes", 0},   {"received_bytes", 0},
          {"resident_bytes", 3ull << 30}};
}

json Status(std::vector<json> workers, std::vector<json> servers) {
  return {{"job", "recommender"},
          {"activity", "training"},
          {"epoch", 2},
          {"epochs", 4},
          {"step", 120},
          {"steps", 800},
          {"steps_per_second", 4512.3},
          {"queued", 3},
          {"in_flight", 4},
          {"metrics", {{"loss", 0.5}, {"accuracy", nullptr}}},
          {"newest_checkpoint", "/c/ckpt-1-1-0"},
          {"checkpoint_age_seconds", 12},
          {"workers", workers},
          {"servers", servers}};
}

std::vector<std::string> Texts(const std::vector<TopRow>& rows) {
  std::vector<std::string> texts;
  for (const TopRow& row : rows) texts.push_back(row.text);
  return texts;
}

TEST_CASE("the table has the rates of each task and the header the state of the job") {
  const json before = Status({Worker(100)}, {Server(1000)});
  const json now = Status({Worker(300)}, {Server(1500)});
  const auto rows = TopRows(before, now, 2, {});
  CHECK(
      Texts(rows) ==
      std::vector<std::string>{
          "job         recommender, training",
          "progress    epoch 2 of 4, step 120 of 800, 4512 steps/s",
          "metrics     accuracy is not finite, loss 0.5000", "closures    3 wait, 4 run",
          "checkpoint  /c/ckpt-1-1-0, 12.0 s ago", "",
          "TASK      ADDRESS        STATE   STEPS/S  PUSHES/S  CLOSURES  STALENESS  SENT/S  "
          "RECEIVED/S    MEMORY  HEARD",
          "worker:0  10.0.0.1:4701  runs        100       200        30        1.5   100 B     "
          "400 KiB  50.0 MiB  0.5 s",
          "ps:0      10.0.0.2:4711  serves        -       250         -          -     0 B         "
          "0 B   3.0 GiB  1 min"});
  CHECK(rows[6].kind == TopRowKind::kTitles);
  CHECK(rows[7].kind == TopRowKind::kPlain);
}

TEST_CASE("a task shows whether it is lost, idle or silent") {
  json lost = Worker(10);
  lost["connected"] = false;
  json idle = Worker(10);
  idle["in_flight"] = 0;
  json silent = Worker(10);
  silent["silent_seconds"] = 75;
  const json status = Status({lost, idle, silent}, {});
  const auto rows = TopRows(status, status, 1, {});
  CHECK_THAT(rows[7].text, Contains(" lost ") && Contains(" -      -"));
  CHECK(rows[7].kind == TopRowKind::kLost);
  CHECK_THAT(rows[8].text, Contains(" idle "));
  CHECK_THAT(rows[9].text, Contains(" silent 1 min "));
}

TEST_CASE("a counter that was reset has no rate") {
  const auto rows = TopRows(Status({Worker(300)}, {}), Status({Worker(100)}, {}), 1, {});
  CHECK_THAT(rows[7].text, Contains(" runs         -         -"));
}

TEST_CASE("a narrow screen has fewer columns, and no row is longer than it is wide") {
  const json status = Status({Worker(300)}, {Server(1)});
  for (size_t columns = 1; columns < 120; ++columns) {
    for (const TopRow& row : TopRows(status, status, 1, {.columns = columns})) {
      CHECK(row.text.size() <= columns);
    }
  }
  CHECK(TopRows(status, status, 1, {.columns = 30})[6].text == "TASK      STATE   STEPS/S");
}

TEST_CASE("a low screen shows lost tasks first and counts the others") {
  json lost = Worker(1);
  lost["connected"] = false;
  const json status = Status({Worker(1), Worker(2), lost, Worker(3)}, {Server(1)});
  const auto rows = TopRows(status, status, 1, {.rows = 10});
  REQUIRE(rows.size() == 10);
  CHECK_THAT(rows[7].text, Contains("worker:2") && Contains("lost"));
  CHECK_THAT(rows[8].text, Contains("worker:0"));
  CHECK(rows[9].text == "and 3 more tasks");
  CHECK(TopRows(status, status, 1, {.rows = 12}).size() == 12);
  CHECK(TopRows(status, status, 1, {.rows = 2}).back().text == "and 5 more tasks");
}

TEST_CASE("a job that has not started has no table") {
  const json status = {{"job", "a"}, {"activity", "waiting for worker:1"}};
  CHECK(Texts(TopRows(status, status, 1, {})) ==
        std::vector<std::string>{"job         a, waiting for worker:1"});
}

TEST_CASE("values of a wrong type and control characters do no harm") {
  const json status = {{"job", "a\x1b[2J"},
                       {"activity", 7},
                       {"step", "x"},
                       {"workers", {7, {{"connected", 1}, {"address", {}}}}},
                       {"servers", "x"}};
  for (const TopRow& row : TopRows(status, status, 0, {})) {
    CHECK(row.text.find('\x1b') == std::string::npos);
  }
}

}  // namespace
}  // namespace cohort
