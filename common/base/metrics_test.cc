#include "common/base/metrics.h"

#include <catch2/catch.hpp>
#include <thread>

namespace cohort {
namespace {

using Catch::Contains;

TEST_CASE("metrics are exported in Prometheus' text format") {
  MetricsRegistry registry;
  registry.AddCounter("cohort_closures_total", "Closures finished.", {{"verdict", "ok"}})
      ->Increment(3);
  registry.AddGauge("cohort_queue_depth", "Closures queued.")->Set(7);
  registry.AddCallback("cohort_live", "Asked for.", [] { return 2.5; });
  registry.AddCallback("cohort_read_total", "Asked for.", [] { return 8.0; });
  Histogram* h = registry.AddHistogram("cohort_apply_seconds", "Time to apply.", {1, 2, 4});
  for (const double v : {0.5, 1.0, 3.0, 100.0}) h->Observe(v);
  const std::string text = registry.Text();
  REQUIRE_THAT(text, Contains("# HELP cohort_closures_total Closures finished.\n"));
  REQUIRE_THAT(text, Contains("# TYPE cohort_closures_total counter\n"));
  REQUIRE_THAT(text, Contains("cohort_closures_total{verdict=\"ok\"} 3"));
  REQUIRE_THAT(text, Contains("cohort_queue_depth 7"));
  REQUIRE_THAT(text, Contains("# TYPE cohort_live gauge\ncohort_live 2.5"));
  REQUIRE_THAT(text, Contains("# TYPE cohort_read_total counter\ncohort_read_total 8"));
  REQUIRE_THAT(text, Contains("cohort_apply_seconds_bucket{le=\"1\"} 2"));
  REQUIRE_THAT(text, Contains("cohort_apply_seconds_bucket{le=\"2\"} 2"));
  REQUIRE_THAT(text, Contains("cohort_apply_seconds_bucket{le=\"+Inf\"} 4"));
  REQUIRE_THAT(text, Contains("cohort_apply_seconds_count 4"));
  REQUIRE_THAT(text, Contains("cohort_apply_seconds_sum 104.5"));
}

TEST_CASE("a name with its labels is one metric") {
  MetricsRegistry registry;
  Counter* a = registry.AddCounter("n_total", "", {{"ps", "0"}});
  REQUIRE(registry.AddCounter("n_total", "", {{"ps", "0"}}) == a);
  REQUIRE(registry.AddCounter("n_total", "", {{"ps", "1"}}) != a);
  REQUIRE(ExponentialBounds(1, 2, 4) == std::vector<double>{1, 2, 4, 8});
}

TEST_CASE("threads count without a lock during a read") {
  MetricsRegistry registry;
  Counter* counter = registry.AddCounter("n_total", "");
  Gauge* gauge = registry.AddGauge("g", "");
  Histogram* histogram = registry.AddHistogram("h", "", {10, 100});
  const auto work = [&] {
    for (int i = 0; i < 1000; ++i) {
      counter->Increment();
      gauge->Add(1);
      histogram->Observe(i);
    }
  };
  std::thread a(work), b(work);
  for (int i = 0; i < 10; ++i) REQUIRE(!registry.Text().empty());
  a.join();
  b.join();
  REQUIRE(counter->value() == 2000);
  REQUIRE(gauge->value() == 2000);
  REQUIRE(histogram->count() == 2000);
  REQUIRE(histogram->bucket(0) == 22);
  REQUIRE(histogram->sum() == 999000);
}

}  // namespace
}  // namespace cohort
