#include "chief/chief_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

namespace cohort {
namespace {

using Catch::Contains;

TEST_CASE("a scrape shows how far the job is behind its stream") {
  MetricsRegistry registry;
  std::optional<StreamFigures> figures;
  AddStreamMetrics(&registry, [&] { return figures; });
  CHECK_THAT(registry.Text(), Contains("\ncohort_chief_stream_files_waiting 0\n"));
  figures = StreamFigures{.files_waiting = 3, .records_waiting = 70, .oldest_waiting_seconds = 2.5};
  CHECK_THAT(registry.Text(), Contains("\ncohort_chief_stream_files_waiting 3\n"));
  CHECK_THAT(registry.Text(), Contains("\ncohort_chief_stream_records_waiting 70\n"));
  CHECK_THAT(registry.Text(), Contains("\ncohort_chief_stream_oldest_waiting_seconds 2.5\n"));
}

TEST_CASE("a scrape takes one copy of the chief's state, however many tasks there are") {
  const int tasks = GENERATE(1, 500);
  MetricsRegistry registry;
  int copies = 0;
  CoordinatorState state;
  state.steps = 23;
  state.counters.held_us = 1'500'000;
  state.workers.resize(static_cast<size_t>(tasks));
  state.workers.back() = {.steps = 20, .in_flight = 3, .silent_seconds = 0.5};
  state.server_reports.resize(static_cast<size_t>(tasks));
  state.server_reports.front().connected = true;
  AddChiefMetrics(&registry, tasks, tasks, [&] {
    ++copies;
    return std::optional(state);
  });
  for (int scrape = 1; scrape <= 3; ++scrape) {
    const std::string text = registry.Text();
    CHECK(copies == scrape);
    CHECK_THAT(text, Contains("\ncohort_chief_steps 23\n"));
    CHECK_THAT(text, Contains("\ncohort_chief_checkpoint_hold_seconds_total 1.5\n"));
    CHECK_THAT(text, Contains("\ncohort_chief_loss Nan\n"));
    const std::string last = "{worker=\"" + std::to_string(tasks - 1) + "\"} ";
    CHECK_THAT(text, Contains("cohort_chief_worker_steps_total" + last + "20\n"));
    CHECK_THAT(text, Contains("cohort_chief_worker_in_flight" + last + "3\n"));
    CHECK_THAT(text, Contains("cohort_chief_worker_silent_seconds" + last + "0.5\n"));
    CHECK_THAT(text, Contains("cohort_chief_task_connected{task=\"ps:0\"} 1\n"));
    CHECK_THAT(text, Contains("cohort_chief_task_connected{task=\"worker:0\"} 0\n"));
  }
}

TEST_CASE("a task that joins has its series, and NaN when it has left") {
  MetricsRegistry registry;
  CoordinatorState state;
  AddChiefMetrics(&registry, 1, 1, [&] { return std::optional(state); });
  state.workers.resize(1);
  state.worker_reports = {{.address = "a:1"}};
  state.server_reports = {{.address = "c:1"}};
  CHECK_THAT(registry.Text(), !Contains("worker:1") && !Contains("ps:1"));
  state.workers = {{}, {}, {.steps = 7}};
  state.worker_reports = {
      {.address = "a:1"}, {.address = ""}, {.address = "d:1", .connected = true}};
  state.server_reports = {{.address = "c:1"}, {.address = "e:1"}};
  const auto line = [](const char* task, const char* value) {
    return Contains(fmt::format("\ncohort_chief_task_connected{{task=\"{}\"}} {}\n", task, value));
  };
  for (int scrape = 0; scrape < 2; ++scrape) {
    const std::string text = registry.Text();
    CHECK_THAT(text, line("worker:0", "0") && line("worker:1", "Nan") && line("worker:2", "1"));
    CHECK_THAT(text, line("ps:0", "0") && line("ps:1", "0"));
    CHECK_THAT(text, Contains("\ncohort_chief_worker_steps_total{worker=\"2\"} 7\n"));
  }
  state.workers.resize(1);
  state.worker_reports.resize(1);
  CHECK_THAT(registry.Text(), line("worker:0", "0") && line("worker:2", "Nan"));
}

TEST_CASE("each link that a worker reports has its waits, and NaN when it reports no more") {
  MetricsRegistry registry;
  CoordinatorState state;
  state.slow_links = 1;
  AddChiefMetrics(&registry, 2, 2, [&] { return std::optional(state); });
  CHECK_THAT(registry.Text(), !Contains("cohort_chief_link_wait_seconds"));
  state.links = {{.worker = 0, .server = 1, .p50_seconds = 0.25, .p99_seconds = 0.5},
                 {.worker = 1, .server = 0, .p50_seconds = 0.125, .p99_seconds = 1}};
  const auto line = [](const char* ps, const char* percentile, const char* worker,
                       const char* value) {
    return fmt::format(
        "\ncohort_chief_link_wait_seconds{{percentile=\"{}\",ps=\"{}\",worker=\"{}\"}} {}\n",
        percentile, ps, worker, value);
  };
  std::string text = registry.Text();
  CHECK_THAT(text, Contains(line("1", "50", "0", "0.25")) && Contains(line("1", "99", "0", "0.5")));
  CHECK_THAT(text, Contains(line("0", "50", "1", "0.125")));
  CHECK_THAT(text, Contains("\ncohort_chief_slow_links 1\n"));
  state.links.erase(state.links.begin());
  text = registry.Text();
  CHECK_THAT(text, Contains(line("1", "50", "0", "Nan")) && Contains(line("0", "99", "1", "1")));
}

TEST_CASE("the metrics of a chief are 0 before its cluster starts") {
  MetricsRegistry registry;
  AddChiefMetrics(&registry, 1, 1, [] { return std::nullopt; });
  const std::string text = registry.Text();
  CHECK_THAT(text, Contains("\ncohort_chief_loss 0\n"));
  CHECK_THAT(text, Contains("\ncohort_chief_worker_steps_total{worker=\"0\"} 0\n"));
}

}  // namespace
}  // namespace cohort
