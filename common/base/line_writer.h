#ifndef COHORT_COMMON_BASE_LINE_WRITER_H_
#define COHORT_COMMON_BASE_LINE_WRITER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/mutex.h"

namespace cohort {

// Writes lines on a thread of its own, so that whoever has a line never waits for a pipe that
// nobody reads, or for a disk. What exceeds the memory for waiting lines is dropped, the oldest
// first, and counted.
class LineWriter {
 public:
  static constexpr size_t kMostBytes = 4 << 20;  // that lines take while they wait

  // `write` runs on the thread. `dropped` is how many lines before this one were dropped.
  using Write = std::function<void(std::string_view line, uint64_t dropped)>;
  explicit LineWriter(Write write);
  // Waits for the lines, as Flush does. A write that does not return is left behind, with its
  // thread.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  void Add(std::string line);
  // Waits until everything is written, 2 s at most. Returns false if it is not.
  bool Flush();

 private:
  static constexpr std::chrono::seconds kFlushTime{2};

  // The thread shares it, because it may outlive the writer.
  struct State {
    Mutex mu;
    CondVar added;
    CondVar written;
    std::deque<std::string> lines ABSL_GUARDED_BY(mu);
    size_t bytes ABSL_GUARDED_BY(mu) = 0;
    uint64_t dropped ABSL_GUARDED_BY(mu) = 0;
    bool writing ABSL_GUARDED_BY(mu) = false;
    bool ends ABSL_GUARDED_BY(mu) = false;
  };
  static void Run(const std::shared_ptr<State>& state, const Write& write);

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_LINE_WRITER_H_
