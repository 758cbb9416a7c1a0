#ifndef COHORT_COMMON_REPORT_PROGRESS_H_
#define COHORT_COMMON_REPORT_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/report/event_file.h"

namespace cohort {

// The position of a job.
struct Progress {
  uint64_t epoch = 0;           // from 1
  uint64_t epochs = 0;          // 0: the windows of a stream, which are counted instead
  uint64_t step = 0;            // completed in this epoch
  uint64_t steps = 0;           // in this epoch; 0: unknown
  double steps_per_second = 0;  // 0: unknown
  Scalars metrics;
  std::string note;         // "waiting for worker:2 (host3:2222), 12 s"
  double seconds_left = 0;  // until the end of the job, without the pauses to come; 0: unknown
};

// "2.5 s", "42 s", "3 min 05 s", "2 h 05 min", "3 d 4 h".
std::string FormatSeconds(double seconds);

// "loss 0.3215, accuracy 0.8812": the loss first, the others in their order. As in Keras, a value
// below 0.001 is written as 8.6730e-07.
std::string FormatMetrics(const Scalars& metrics);

// "epoch 2/5 [=====>    ] 120/240, 830 steps/s, 12 s left, loss 0.3215, accuracy 0.8812", without a
// newline.
std::string FormatProgress(const Progress& progress);

// Shows the progress of a job: on a terminal one line that is rewritten a few times a second,
// otherwise a plain line every few seconds. Used by one thread at a time.
class ProgressLine {
 public:
  using Output = std::function<void(std::string_view)>;
  struct Options {
    bool terminal = false;
    Duration every_on_terminal = std::chrono::milliseconds(100);
    Duration every_elsewhere = std::chrono::seconds(5);
    size_t width = 100;  // columns of the terminal
  };

  ProgressLine(const Clock* clock, Options options, Output output)
      : clock_(clock), options_(options), output_(std::move(output)) {}
  // Ends the line that is being rewritten.
  ~ProgressLine();

  // Shows the progress, unless something was shown just now.
  void Update(const Progress& progress);
  // True if Update would show something now. Lets a caller skip building a Progress.
  bool due() const { return clock_->Now() >= next_; }
  // Prints a line that stays: the end of an epoch, or a wait for a task.
  void Line(std::string_view text);

  // The options for stderr or stdout of this process.
  static Options OptionsFor(int fd);

 private:
  const Clock* const clock_;
  const Options options_;
  const Output output_;
  TimePoint next_{};
  bool open_ = false;  // the cursor is after a line that may be rewritten
};

}  // namespace cohort

#endif  // COHORT_COMMON_REPORT_PROGRESS_H_
