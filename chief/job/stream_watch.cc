#include "chief/job/stream_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/data/file_bytes.h"
#include "common/data/stream_files.h"

namespace cohort {
namespace {

// The most files that are added to the list together, and the longest time. Each addition is
// synced.
constexpr size_t kMostAtOnce = 64;
constexpr double kMostSecondsAtOnce = 1;

std::chrono::steady_clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

std::string_view FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

// True only if the file certainly does not exist.
bool IsGone(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) != 0 && errno == ENOENT;
}

bool Exists(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

uint64_t PositionOf(const v1::Manifest& manifest) {
  uint64_t position = manifest.chief().next_place();
  for (const v1::PendingClosure& pending : manifest.chief().pending()) {
    position = std::min(position, pending.place());
  }
  return position;
}

StreamWatch::StreamWatch(Options options, std::unique_ptr<StreamLog> list)
    : options_(std::move(options)), list_(std::move(list)), checkpointed_(options_.checkpointed) {
  for (const v1::StreamFile& file : list_->files()) taken_.push_back(TakenOf(file));
  thread_ = std::thread([this] { Run(); });
}

StreamWatch::~StreamWatch() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  wake_.Signal();
  thread_.join();
}

StreamWatch::Taken StreamWatch::TakenOf(const v1::StreamFile& file) {
  Taken taken{.first_place = file.first_place(),
              .places = file.places(),
              .bytes = file.bytes(),
              .modified_ns = file.modified_ns()};
  for (const uint64_t records : file.block_records()) taken.records += records;
  return taken;
}

absl::StatusOr<StreamWatch::News> StreamWatch::Take(uint64_t position, double seconds) {
  const auto until = std::chrono::steady_clock::now() + Seconds(seconds);
  MutexLock lock(&mu_);
  position_ = position;
  position_known_ = true;
  while (error_.ok() && news_.files.empty() && !news_.ended && has_news_.WaitUntil(&mu_, until)) {
  }
  if (!error_.ok()) return error_;
  News news = std::move(news_);
  news_ = {.files = {}, .ended = news.ended, .oldest_needed = news.oldest_needed};
  return news;
}

void StreamWatch::SetCheckpointed(uint64_t place) {
  MutexLock lock(&mu_);
  checkpointed_ = place;
}

bool StreamWatch::stopping() const {
  MutexLock lock(&mu_);
  return stopping_;
}

uint64_t StreamWatch::BytesAhead() const {
  MutexLock lock(&mu_);
  uint64_t bytes = 0;
  for (auto file = taken_.rbegin(); file != taken_.rend(); ++file) {
    if (file->first_place < position_) break;
    bytes += file->bytes;
  }
  return bytes;
}

StreamFigures StreamWatch::figures() const {
  StreamFigures figures{.place = StreamPlace(options_.train)};
  MutexLock lock(&mu_);
  figures.files_left_out = files_left_out_;
  int64_t oldest = 0;
  const auto waits = [&](const Taken& file) {
    ++figures.files_waiting;
    oldest = oldest == 0 ? file.modified_ns : std::min(oldest, file.modified_ns);
  };
  for (const Taken& file : taken_) {
    if (file.end() <= checkpointed_) {
      ++figures.files_done;
      continue;
    }
    if (file.first_place >= position_) {
      waits(file);
      figures.records_waiting += file.records;
      figures.bytes_waiting += file.bytes;
      continue;
    }
    ++figures.files_in_work;
    const double left = file.end() > position_ ? static_cast<double>(file.end() - position_) /
                                                     static_cast<double>(file.places)
                                               : 0;
    figures.records_waiting += static_cast<uint64_t>(left * static_cast<double>(file.records));
    figures.bytes_waiting += static_cast<uint64_t>(left * static_cast<double>(file.bytes));
  }
  for (const Taken& file : found_) {
    waits(file);
    ++figures.files_not_counted;
    figures.bytes_waiting += file.bytes;
  }
  if (oldest > 0) {
    const auto now = static_cast<double>(options_.clock->UnixMicros()) / 1e6;
    figures.oldest_waiting_seconds = std::max(0.0, now - static_cast<double>(oldest) / 1e9);
  }
  figures.ended = news_.ended;
  return figures;
}

// ------------------------------------------------------------------ the thread

void StreamWatch::Run() {
  while (true) {
    const absl::Status polled = Poll();
    // Storage that does not answer may answer later.
    const bool later = absl::IsUnavailable(polled) || absl::IsResourceExhausted(polled);
    if (later) options_.log->Failure(LogLevel::kWarning, "stream_not_read", polled);
    MutexLock lock(&mu_);
    if (!polled.ok() && !later) {
      error_ = polled;
      has_news_.Signal();
      return;
    }
    has_news_.Signal();
    const auto until = std::chrono::steady_clock::now() + Seconds(options_.stream.poll_s());
    while (!stopping_ && wake_.WaitUntil(&mu_, until)) {
    }
    if (stopping_) return;
  }
}

absl::Status StreamWatch::Poll() {
  // A file that was there before `end` is found afterwards.
  const std::string& end = options_.stream.end();
  const bool ends = !end.empty() && Exists(options_.data.PathOf(end));
  std::set<std::string> left_out;
  COHORT_ASSIGN_OR_RETURN(
      const auto found, ListStreamFiles(options_.train, options_.stream, options_.data, &left_out));
  NoteLeftOut(left_out);
  COHORT_RETURN_IF_ERROR(CheckTaken(found, left_out));
  bool all = false;
  COHORT_RETURN_IF_ERROR(TakeNew(found, &all));
  COHORT_RETURN_IF_ERROR(CompactIfDue(found));
  if (ends && all) {
    MutexLock lock(&mu_);
    news_.ended = true;
  }
  return absl::OkStatus();
}

void StreamWatch::NoteLeftOut(const std::set<std::string>& left_out) {
  for (const std::string& path : left_out) {
    if (!left_out_.contains(path)) options_.log->Info("stream_file_left_out", {{"path", path}});
  }
  left_out_ = left_out;
  MutexLock lock(&mu_);
  files_left_out_ = left_out.size();
}

absl::Status StreamWatch::CheckTaken(const std::vector<std::string>& found,
                                     const std::set<std::string>& left_out) {
  uint64_t checkpointed = 0;
  {
    MutexLock lock(&mu_);
    if (!position_known_) return absl::OkStatus();
    checkpointed = checkpointed_;
  }
  for (const std::string& path : found) {
    const v1::StreamFile* const file = list_->Find(path);
    if (file == nullptr) continue;
    const absl::Status same = CheckStreamFile(*file, options_.data);
    // It was removed just now.
    if (same.ok() || absl::IsNotFound(same)) continue;
    COHORT_RETURN_IF_ERROR(OnBroken(*file, same));
  }
  const std::vector<v1::StreamFile>& files = list_->files();
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (file->first_place() + file->places() <= checkpointed) break;
    if (file->places() == 0 || left_out.contains(file->path())) continue;
    const std::string path = options_.data.PathOf(file->path());
    if (!IsGone(path)) continue;
    COHORT_RETURN_IF_ERROR(OnBroken(
        *file,
        WithExitCode(FailedPrecondition("{}: was removed before a checkpoint had all of its "
                                        "records. `cohort ctl RUN status` counts the files that "
                                        "are done and may be removed",
                                        path),
                     ExitCode::kNoInput)));
  }
  return absl::OkStatus();
}

absl::Status StreamWatch::OnBroken(const v1::StreamFile& file, absl::Status broken) {
  {
    MutexLock lock(&mu_);
    const bool is_read = file.first_place() + file.places() <= std::max(position_, checkpointed_);
    if (!is_read) {
      return AdviseToSkip(std::move(broken), file.path(), options_.data,
                          "put it back as it was, or ");
    }
  }
  if (noted_.insert(file.path()).second) {
    options_.log->Failure(LogLevel::kWarning, "stream_file_not_as_read", broken);
  }
  return absl::OkStatus();
}

absl::Status StreamWatch::TakeNew(const std::vector<std::string>& found, bool* all) {
  std::vector<std::string> fresh;
  std::vector<Taken> waiting;
  for (const std::string& path : found) {
    if (list_->Find(path) != nullptr) continue;
    struct stat status = {};
    if (::stat(options_.data.PathOf(path).c_str(), &status) != 0) continue;
    fresh.push_back(path);
    waiting.push_back({.bytes = static_cast<uint64_t>(status.st_size),
                       .modified_ns = NanosecondsOf(status.st_mtim)});
  }
  {
    MutexLock lock(&mu_);
    found_ = waiting;
  }
  std::vector<v1::StreamFile> files;
  TimePoint began = options_.clock->Now();
  size_t next = 0;
  uint64_t ahead = BytesAhead();
  for (; next < fresh.size() && ahead < options_.most_bytes_ahead && !stopping(); ++next) {
    absl::StatusOr<v1::StreamFile> file = TakeStreamFile(
        options_.train, fresh[next], {.batch_size = options_.batch_size}, options_.data);
    if (absl::IsNotFound(file.status())) continue;  // it was removed just now
    // It is not in the list yet, so it may still change.
    COHORT_RETURN_IF_ERROR(AdviseToSkip(file.status(), fresh[next], options_.data,
                                        "correct it and start the job again, or "));
    ahead += file->bytes();
    files.push_back(*std::move(file));
    const bool late = ToSeconds(options_.clock->Now() - began) >= kMostSecondsAtOnce;
    if (files.size() < kMostAtOnce && !late) continue;
    COHORT_RETURN_IF_ERROR(Append(&files));
    began = options_.clock->Now();
  }
  COHORT_RETURN_IF_ERROR(Append(&files));
  *all = next == fresh.size();
  return absl::OkStatus();
}

absl::Status StreamWatch::Append(std::vector<v1::StreamFile>* files) {
  if (files->empty()) return absl::OkStatus();
  const size_t count = files->size(), before = list_->files().size();
  COHORT_RETURN_IF_ERROR(list_->Append(std::exchange(*files, {})));
  for (size_t i = before; i < before + count; ++i) {
    const v1::StreamFile& file = list_->files()[i];
    options_.log->Info("stream_file", {{"path", file.path()},
                                       {"bytes", file.bytes()},
                                       {"records", TakenOf(file).records},
                                       {"first_step", file.first_place()},
                                       {"steps", file.places()}});
  }
  MutexLock lock(&mu_);
  has_news_.Signal();
  found_.erase(found_.begin(),
               found_.begin() + static_cast<std::ptrdiff_t>(std::min(count, found_.size())));
  for (size_t i = before; i < before + count; ++i) {
    taken_.push_back(TakenOf(list_->files()[i]));
    news_.files.push_back(list_->files()[i]);
  }
  return absl::OkStatus();
}

// A file that was removed leaves the list when no checkpoint needs it any more. A folder without
// any other file may be one that is not mounted: its files stay in the list.
absl::Status StreamWatch::CompactIfDue(const std::vector<std::string>& found) {
  if (!list_->compaction_is_due()) return absl::OkStatus();
  const absl::StatusOr<uint64_t> needed = options_.oldest_needed();
  if (!needed.ok()) {  // a checkpoint may be removed meanwhile: the next poll tries again
    options_.log->Failure(LogLevel::kWarning, "stream_list_not_compacted", needed.status());
    return absl::OkStatus();
  }
  std::unordered_set<std::string_view> here;
  std::set<std::string_view> folders;
  for (const std::string& path : found) {
    here.insert(path);
    folders.insert(FolderOf(path));
  }
  COHORT_RETURN_IF_ERROR(list_->Compact([&](const v1::StreamFile& file) {
    return file.first_place() + file.places() <= *needed && !here.contains(file.path()) &&
           folders.contains(FolderOf(file.path())) && IsGone(options_.data.PathOf(file.path()));
  }));
  MutexLock lock(&mu_);
  news_.oldest_needed = *needed;
  taken_.clear();
  for (const v1::StreamFile& file : list_->files()) taken_.push_back(TakenOf(file));
  return absl::OkStatus();
}

}  // namespace cohort
