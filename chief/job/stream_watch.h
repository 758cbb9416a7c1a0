#ifndef COHORT_CHIEF_JOB_STREAM_WATCH_H_
#define COHORT_CHIEF_JOB_STREAM_WATCH_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "chief/job/job_control.h"
#include "chief/job/stream_log.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/data/data_options.h"
#include "proto/job.pb.h"

namespace cohort {

// Looks for new files of a stream, on a thread of its own:
//
//   a file is complete ─► TakeStreamFile counts its records ─► StreamLog::Append ─► Take, by the job
//
// A file must stay as it is until all of its records are read: if it changes or is removed before,
// Take returns an error that names it, unless the user leaves out the rest of it (FILE.skip). A
// rollback needs the records again that no checkpoint has. If a file changes later, the log has a
// warning, because nobody reads its new contents.
class StreamWatch {
 public:
  struct Options {
    v1::DatasetSpec train;
    v1::StreamSpec stream;
    DataOptions data;
    uint32_t batch_size = 0;
    uint64_t most_bytes_ahead = uint64_t{4} << 30;  // in files that are taken and not read
    uint64_t checkpointed = 0;                      // SetCheckpointed, at the start
    // The first place that a kept checkpoint may need. Called by the thread.
    std::function<absl::StatusOr<uint64_t>()> oldest_needed;
    const Clock* clock = nullptr;
    Logger* log = nullptr;
  };
  // Begins with the files of the list.
  StreamWatch(Options options, std::unique_ptr<StreamLog> list);
  ~StreamWatch();

  struct News {
    std::vector<v1::StreamFile> files;  // that were added to the list since the last call
    bool ended = false;                 // `end` exists, and no file will come
    uint64_t oldest_needed = 0;         // no checkpoint needs places below it
  };
  // The records of places below `position` are read. Waits for `seconds` at most if nothing is new.
  // Errors: those that end the job.
  absl::StatusOr<News> Take(uint64_t position, double seconds = 0);
  // A checkpoint has the records of all places below this one.
  void SetCheckpointed(uint64_t place);

  // Thread-safe.
  StreamFigures figures() const;

 private:
  // What the figures need of a file of the list.
  struct Taken {
    uint64_t first_place = 0;
    uint64_t places = 0;
    uint64_t records = 0;
    uint64_t bytes = 0;
    int64_t modified_ns = 0;
    uint64_t end() const { return first_place + places; }
  };
  static Taken TakenOf(const v1::StreamFile& file);

  void Run();
  absl::Status Poll();
  // Errors: a file of the list has changed, or is removed, before it is read.
  absl::Status CheckTaken(const std::vector<std::string>& found,
                          const std::set<std::string>& left_out);
  // Takes what is wrong with a file of the list. Returns it if the file is still needed.
  absl::Status OnBroken(const v1::StreamFile& file, absl::Status broken);
  void NoteLeftOut(const std::set<std::string>& left_out);
  // Adds new files to the list. Sets `*all` if none is left.
  absl::Status TakeNew(const std::vector<std::string>& found, bool* all);
  absl::Status Append(std::vector<v1::StreamFile>* files);
  absl::Status CompactIfDue(const std::vector<std::string>& found);
  uint64_t BytesAhead() const;
  bool stopping() const;

  const Options options_;
  // Only the thread uses these three, from its start on.
  const std::unique_ptr<StreamLog> list_;
  std::set<std::string> noted_;  // files of which the log has a warning
  std::set<std::string> left_out_;

  mutable Mutex mu_;
  CondVar wake_;
  CondVar has_news_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  News news_ ABSL_GUARDED_BY(mu_);
  std::vector<Taken> taken_ ABSL_GUARDED_BY(mu_);
  std::vector<Taken> found_ ABSL_GUARDED_BY(mu_);  // files that are complete and not taken
  uint64_t position_ ABSL_GUARDED_BY(mu_) = 0;
  bool position_known_ ABSL_GUARDED_BY(mu_) = false;  // Take was called
  uint64_t files_left_out_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t checkpointed_ ABSL_GUARDED_BY(mu_) = 0;

  std::thread thread_;  // last: it uses all of the above
};

// The first place whose records a manifest does not have.
uint64_t PositionOf(const v1::Manifest& manifest);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_STREAM_WATCH_H_
