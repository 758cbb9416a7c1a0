#include "chief/core/worker_pace.h"

#include <algorithm>

#include "common/base/status.h"

namespace cohort {

void WorkerPace::Restart(int worker) {
  Worker& w = of(worker);
  w.set_aside_until_us = 0;
  ++changes_;
  w.progress_us = context_->now_us;
  w.idled_us = 0;
  w.quick_us = -1;
}

void WorkerPace::OnResults(int worker) {
  Worker& w = of(worker);
  if (context_->now_us - w.progress_us < context_->options.closure_timeout_us()) {
    w.quick_us = context_->now_us;
  }
  w.progress_us = context_->now_us;
  w.idled_us = 0;
}

bool WorkerPace::SetAside(int worker, int64_t us, const std::string& why) {
  if (is_set_aside(worker)) return false;
  Worker& w = of(worker);
  w.set_aside_until_us = context_->now_us + us;
  ++changes_;
  w.set_aside_why = why;
  w.set_aside_late = false;
  return true;
}

bool WorkerPace::SetLateAside(int worker) {
  const int doublings = std::min(++of(worker).times_late, 10);
  const int64_t us = context_->options.closure_timeout_us() << doublings;
  if (!SetAside(worker, us, Silence(worker))) return false;
  of(worker).set_aside_late = true;
  of(worker).idled_us = 0;
  return true;
}

bool WorkerPace::SetFenced(int worker, bool fenced) {
  if (of(worker).fenced == fenced) return false;
  of(worker).fenced = fenced;
  ++changes_;
  return true;
}

int WorkerPace::count_available() const {
  const uint64_t changes = changes_ + setup_->changes();
  if (available_.now_us == context_->now_us && available_.changes == changes) {
    return available_.count;
  }
  available_ = {context_->now_us, changes, 0};
  for (int i = 0; i < count(); ++i) available_.count += available(i) ? 1 : 0;
  return available_.count;
}

bool WorkerPace::late(int worker) const {
  return !idle(worker) &&
         context_->now_us - of(worker).progress_us >= context_->options.closure_timeout_us();
}

bool WorkerPace::HasQuicker(int late_one) const {
  for (int i = 0; i < count(); ++i) {
    if (i == late_one || !available(i) || late(i)) continue;
    if (idle(i) || of(i).quick_us > of(late_one).progress_us) return true;
  }
  return false;
}

std::optional<std::string> WorkerPace::OthersWithoutProgress(int late_one) const {
  std::string others;
  for (int i = 0; i < count(); ++i) {
    if (i == late_one || !setup_->ready(i) || fenced(i)) continue;
    const bool progresses = is_set_aside(i) ? !of(i).set_aside_late : !late(i);
    if (progresses) return std::nullopt;
    others += (others.empty() ? "" : ", ") + TaskName(context_->options, WorkerTask(i));
  }
  return others;
}

int64_t WorkerPace::silent_us(int worker) const {
  if (idle(worker)) return 0;
  return std::max<int64_t>(0, context_->now_us - of(worker).progress_us);
}

std::string WorkerPace::Silence(int worker) const {
  return fmt::format("no result for {} s of its {} closures", silent_us(worker) / 1'000'000,
                     queue_->InFlightOn(worker).size());
}

std::string WorkerPace::Waiting(bool none_available) const {
  std::string text;
  for (int i = 0; i < count(); ++i) {
    std::string why;
    if (!setup_->ready(i)) continue;
    if (none_available && fenced(i)) {
      why = "is fenced (`cohort ctl RUN unfence` ends this)";
    } else if (none_available && is_set_aside(i)) {
      why = "is set aside: " + of(i).set_aside_why;
    } else if (!none_available && late(i)) {
      why = "has reported " + Silence(i);
    }
    if (why.empty()) continue;
    text += fmt::format("{}{}, which {}", text.empty() ? "" : "; ",
                        TaskName(context_->options, WorkerTask(i)), why);
  }
  return text;
}

}  // namespace cohort
