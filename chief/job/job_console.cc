#include "chief/job/job_console.h"

#include <utility>

namespace cohort {

void JobConsole::Print(const std::string& text) {
  MutexLock lock(&line_mu_);
  line_->Line(text);
}

void JobConsole::PrintWait(const std::string& what) {
  Print(what);
  MutexLock lock(&mu_);
  if (ending_) activity_ = what;
  waiting_for_ = what;
}

void JobConsole::SetActivity(std::string what) {
  MutexLock lock(&mu_);
  activity_ = std::move(what);
  waiting_for_.clear();
}

std::string JobConsole::activity() const {
  MutexLock lock(&mu_);
  return activity_;
}

std::string JobConsole::waiting_for() const {
  MutexLock lock(&mu_);
  return waiting_for_;
}

void JobConsole::SetStepsPerSecond(double rate) {
  MutexLock lock(&mu_);
  steps_per_second_ = rate;
}

double JobConsole::steps_per_second() const {
  MutexLock lock(&mu_);
  return steps_per_second_;
}

void JobConsole::SetPace(double rate) {
  MutexLock lock(&mu_);
  pace_ = rate;
}

double JobConsole::pace() const {
  MutexLock lock(&mu_);
  return pace_;
}

bool JobConsole::BeginEnd() {
  MutexLock lock(&mu_);
  if (std::exchange(ending_, true)) return false;
  activity_ = "ending";
  return true;
}

}  // namespace cohort
