#include "ps_server/row_metrics.h"

#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

Counter* CounterOf(MetricsRegistry* registry, const char* name, const char* help,
                   const std::string& variable) {
  return registry->AddCounter(name, help, {{"variable", variable}});
}

Gauge* GaugeOf(MetricsRegistry* registry, const char* name, const char* help,
               const std::string& variable) {
  return registry->AddGauge(name, help, {{"variable", variable}});
}

}  // namespace

void RowMetrics::Total::Set(uint64_t now) {
  counter_->Increment(now < last_ ? now : now - last_);
  last_ = now;
}

RowMetrics::OfVariable::OfVariable(MetricsRegistry* r, const std::string& variable)
    : rows(GaugeOf(r, "cohort_ps_rows", "Rows of a variable that steps read by rows.", variable)),
      bytes(GaugeOf(r, "cohort_ps_row_bytes", "Memory of these rows: values and slots.", variable)),
      hot_share(GaugeOf(r, "cohort_ps_hot_row_share",
                        "The ten hottest rows' part of all pulled rows, about.", variable)),
      pulled(CounterOf(r, "cohort_ps_rows_pulled_total", "Rows that steps pulled.", variable)),
      pushed(
          CounterOf(r, "cohort_ps_rows_pushed_total", "Rows that gradients came for.", variable)),
      made(CounterOf(r, "cohort_ps_rows_made_total",
                     "Rows of a table without bounds that updates made.", variable)),
      evicted(CounterOf(r, "cohort_ps_rows_evicted_total",
                        "Rows of a table without bounds that were evicted.", variable)),
      not_admitted(CounterOf(r, "cohort_ps_rows_not_admitted_total",
                             "Gradients that were dropped, because their row was not admitted.",
                             variable)) {}

void RowMetrics::OfVariable::Set(const v1::RowFigures& figures) {
  rows->Set(static_cast<double>(figures.rows()));
  bytes->Set(static_cast<double>(figures.bytes()));
  uint64_t hot = 0;
  for (const v1::HotKey& key : figures.hot()) hot += key.pulls();
  const auto pulls = static_cast<double>(figures.pulled());
  hot_share->Set(pulls > 0 ? static_cast<double>(hot) / pulls : 0);
  pulled.Set(figures.pulled());
  pushed.Set(figures.pushed());
  made.Set(figures.made());
  evicted.Set(figures.evicted());
  not_admitted.Set(figures.not_admitted());
}

void RowMetrics::Set(const v1::TaskFigures& figures) {
  for (const v1::RowFigures& of : figures.rows()) {
    auto found = variables_.find(of.variable());
    if (found == variables_.end()) {
      found = variables_.emplace(of.variable(), OfVariable(registry_, of.variable())).first;
    }
    found->second.Set(of);
  }
}

}  // namespace cohort
