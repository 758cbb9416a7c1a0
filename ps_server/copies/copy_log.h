#ifndef COHORT_PS_SERVER_COPIES_COPY_LOG_H_
#define COHORT_PS_SERVER_COPIES_COPY_LOG_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "common/tablet/tablet_log.h"
#include "common/tensor/buffer.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

// One thing that a tablet did, as it travels to its copy.
struct CopyLogEntry {
  v1::CopyEntry entry;
  v1::PushPullHeader push;         // entry.push(): one section
  std::vector<BufferRef> payload;  // its payload fields
  size_t bytes = 0;                // in the payload
};

class FillRate;
class StatePieces;

// Planted bugs: the simulator proves that it finds them. Only tests set them.
struct CopyFaults {
  bool answers_early = false;        // before the copy has what the answer tells
  bool duplicates_go = false;        // a repeated push is answered at once
  bool fill_misses_entries = false;  // those that come while the state travels
  bool fill_forgets_an_id = false;   // the newest one that the tablet has applied
  bool loses_staged = false;         // staged pushes are not in the log
  bool void_answers = false;         // a server whose tablet another one has answers what waited
};

// Carries entries to one copy, in their order.
class CopySink {
 public:
  virtual ~CopySink() = default;
  // Must not wait. Called by one thread at a time, without a lock.
  virtual void Send(const std::shared_ptr<const CopyLogEntry>& entry) = 0;
  // Makes the thread of the stream call CopyLog::Flush soon. Called with locks held.
  virtual void FlushSoon() = 0;
};

// What the primary of a tablet has done under its present term, as far as the copy has not
// acknowledged it, and which answers may go: those that tell nothing the copy does not have. The
// log of a copy that has nothing yet *fills* it first: it begins with the tablet's state. Answers
// do not wait for such a copy until it is close behind.
//
//   following ─ OnOpen: all entries are sent ─► entries are sent by Flush ─ OnClosed ─► following
//       ├───────── Stop: the tablet has no copy any more; nothing waits for one ─► stopped
//       └───────── Void: another server answers for the tablet, this one never again ─► void
//
// Entries are sent without a lock, by one thread at a time: it also sends what others append
// meanwhile. Small ones are sent by the thread that has pushed, behind its push. What takes long is
// sent by the thread of the stream, so that the copy does it at the same time.
//
// Thread-safe. Lock order: a tablet's lock is taken before the log's.
class CopyLog : public TabletLog {
 public:
  struct Options {
    BufferPool* pool = nullptr;     // outlives the log
    FillRate* fill_rate = nullptr;  // outlives the log; null: no limit
    // The log has ended, so that answers that waited may go. Called with locks of others held.
    std::function<void()> ended;
    // Answers wait from now on for a copy that was filling, which has all that others know.
    std::function<void(const CopyLog& log)> complete;
    CopyFaults faults;
  };
  CopyLog(uint32_t tablet, uint64_t timeline, uint64_t term, bool fills, Options options);
  ~CopyLog() override;

  uint32_t tablet() const { return tablet_; }
  uint64_t timeline() const { return timeline_; }
  uint64_t term() const { return term_; }

  // ---- for the tablet
  void OnBegin(TabletSnapshot state, uint64_t open_step, uint64_t step_try) override;
  void OnPush(uint64_t watermark, const PushHeaderView& header,
              const PushSectionView& section) override;
  void OnClose(uint64_t step) override;
  void OnAbandon(uint64_t step, uint64_t step_try) override;
  // The next OnClose is of this message. Only one thread closes steps.
  void Announce(std::shared_ptr<const v1::CloseStep> close);

  // ---- for answers
  // True if the answer to a repeated push waits as that to a new one does.
  bool holds_duplicates() const { return !options_.faults.duplicates_go; }
  // The number of the newest entry.
  uint64_t end() const;
  // Whether an answer may go that tells of entries up to this one. kVoid: never.
  enum class Answer : uint8_t { kMay, kWaits, kVoid };
  Answer MayAnswer(uint64_t number) const;

  // ---- for the stream
  // `sink` has opened a stream to the copy: sends what is not acknowledged. Until OnClosed, what
  // comes later is sent there.
  void OnOpen(std::shared_ptr<CopySink> sink);
  void OnClosed();
  // Sends what is to be sent, unless another thread does. No lock may be held.
  void Flush();
  // The copy has done all entries up to this one, and has these pieces of the state. Answers may go
  // then.
  void OnAck(uint64_t number, uint64_t state);
  // True while the copy has only a part of the state: a stream that ends then cannot continue.
  bool is_partial() const;
  // True if it began with a state, and answers wait for the copy, which has all of it.
  bool is_complete() const;
  void Stop() { End(Answer::kMay); }
  // Does nothing after Stop.
  void Void() { End(options_.faults.void_answers ? Answer::kMay : Answer::kVoid); }
  bool ended() const;
  // True if the copy has nothing to acknowledge.
  bool idle() const;
  // Bytes of payload that are not acknowledged.
  size_t held_bytes() const;

 private:
  void Append(std::shared_ptr<CopyLogEntry> entry);
  void End(Answer answer);
  // What is to be sent next; null: nothing now. Pieces of the state come before the entries.
  std::shared_ptr<const CopyLogEntry> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<const CopyLogEntry> NextPiece() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint32_t tablet_;
  const uint64_t timeline_;
  const uint64_t term_;
  const Options options_;
  mutable Mutex mu_;
  std::shared_ptr<CopySink> sink_ ABSL_GUARDED_BY(mu_);  // null: no stream is open
  bool sending_ ABSL_GUARDED_BY(mu_) = false;            // a thread is in Flush
  std::deque<std::shared_ptr<const CopyLogEntry>> entries_ ABSL_GUARDED_BY(mu_);
  size_t sent_ ABSL_GUARDED_BY(mu_) = 0;  // entries on this stream
  uint64_t end_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<Answer> ended_ ABSL_GUARDED_BY(mu_);  // what holds for all answers since then
  std::shared_ptr<const v1::CloseStep> close_ ABSL_GUARDED_BY(mu_);
  // While it fills.
  bool fills_ ABSL_GUARDED_BY(mu_);                          // answers do not wait
  bool begun_ ABSL_GUARDED_BY(mu_);                          // OnBegin was called, or need not
  std::unique_ptr<StatePieces> state_ ABSL_GUARDED_BY(mu_);  // those that are not sent
  std::deque<size_t> pieces_ ABSL_GUARDED_BY(mu_);           // bytes of those that are on their way
  size_t piece_bytes_ ABSL_GUARDED_BY(mu_) = 0;              // their sum
  uint64_t sent_pieces_ ABSL_GUARDED_BY(mu_) = 0;
  bool completed_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t complete_at_ ABSL_GUARDED_BY(mu_) =
      0;  // answers wait since this entry; 0: nothing is left
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_COPIES_COPY_LOG_H_
