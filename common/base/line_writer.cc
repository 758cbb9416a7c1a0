#include "common/base/line_writer.h"

#include <pthread.h>

#include <utility>

namespace cohort {

LineWriter::LineWriter(Write write) : state_(std::make_shared<State>()) {
  thread_ = std::thread([state = state_, write = std::move(write)] {
    pthread_setname_np(pthread_self(), "log");
    Run(state, write);
  });
}

LineWriter::~LineWriter() {
  const bool all = Flush();
  {
    MutexLock lock(&state_->mu);
    state_->ends = true;
    state_->added.SignalAll();
  }
  all ? thread_.join() : thread_.detach();
}

void LineWriter::Add(std::string line) {
  MutexLock lock(&state_->mu);
  state_->bytes += line.size();
  state_->lines.push_back(std::move(line));
  while (state_->bytes > kMostBytes && state_->lines.size() > 1) {
    state_->bytes -= state_->lines.front().size();
    state_->lines.pop_front();
    ++state_->dropped;
  }
  state_->added.Signal();
}

bool LineWriter::Flush() {
  const auto deadline = std::chrono::steady_clock::now() + kFlushTime;
  MutexLock lock(&state_->mu);
  while (!state_->lines.empty() || state_->writing) {
    if (!state_->written.WaitUntil(&state_->mu, deadline)) return false;
  }
  return true;
}

void LineWriter::Run(const std::shared_ptr<State>& state, const Write& write) {
  while (true) {
    std::string line;
    uint64_t dropped = 0;
    {
      MutexLock lock(&state->mu);
      state->writing = false;
      if (state->lines.empty()) state->written.SignalAll();
      while (state->lines.empty() && !state->ends) state->added.Wait(&state->mu);
      if (state->ends) return;
      line = std::move(state->lines.front());
      state->lines.pop_front();
      state->bytes -= line.size();
      dropped = std::exchange(state->dropped, 0);
      state->writing = true;
    }
    write(line, dropped);
  }
}

}  // namespace cohort
