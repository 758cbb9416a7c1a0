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

// Carries entries to one copy, in their order. The calls must not wait, nor call the log back.
class CopySink {
 public:
  virtual ~CopySink() = default;
  virtual void Send(const std::shared_ptr<const CopyLogEntry>& entry) = 0;
};

// What the primary of a tablet has done under its present term, as far as the copy has not
// acknowledged it, and which answers may go: those that tell nothing the copy does not have. The
// log of a copy that has nothing yet *fills* it first: it begins with the tablet's state. Answers
// do not wait for such a copy until it is close behind.
//
//   following ─ OnOpen: all entries are sent ─► entries are sent as they come ─ OnClosed ─► following
//       ├───────── Stop: the tablet has no copy any more; nothing waits for one ─► stopped
//       └───────── Void: another server answers for the tablet, this one never again ─► void
//
// Thread-safe. Lock order: a tablet's lock is taken before the log's.
class CopyLog : public TabletLog {
 public:
  // `pool` outlives the log. `released`: called without the lock when answers that waited may go.
  // `complete`: the same when answers wait for a copy that was filling, which has all that others
  // know.
  struct Callbacks {
    std::function<void()> released;
    std::function<void(const CopyLog& log)> complete;
  };
  CopyLog(uint32_t tablet, uint64_t timeline, uint64_t term, bool fills, BufferPool* pool,
          Callbacks callbacks, const CopyFaults& faults = {});
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
  bool holds_duplicates() const { return !faults_.duplicates_go; }
  // The number of the newest entry.
  uint64_t end() const;
  // Whether an answer may go that tells of entries up to this one. kVoid: never.
  enum class Answer : uint8_t { kMay, kWaits, kVoid };
  Answer MayAnswer(uint64_t number) const;

  // ---- for the stream
  // `sink` has opened a stream to the copy: sends what is not acknowledged, and then each entry as
  // it comes, until OnClosed.
  void OnOpen(CopySink* sink);
  void OnClosed();
  // The copy has done all entries up to this one, and has these pieces of the state.
  void OnAck(uint64_t number, uint64_t state);
  // True while the copy has only a part of the state: a stream that ends then cannot continue.
  bool is_partial() const;
  // True if it began with a state, and answers wait for the copy, which has all of it.
  bool is_complete() const;
  void Stop() { End(Answer::kMay); }
  // Does nothing after Stop.
  void Void() { End(faults_.void_answers ? Answer::kMay : Answer::kVoid); }
  bool ended() const;
  // True if the copy has acknowledged everything.
  bool idle() const;
  // Bytes of payload that are not acknowledged.
  size_t held_bytes() const;

 private:
  void Append(std::shared_ptr<CopyLogEntry> entry);
  void End(Answer answer);
  // Sends pieces of the state, and behind the last one the entries that wait for it.
  void SendState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint32_t tablet_;
  const uint64_t timeline_;
  const uint64_t term_;
  BufferPool* const pool_;
  const Callbacks callbacks_;
  const CopyFaults faults_;
  mutable Mutex mu_;
  CopySink* sink_ ABSL_GUARDED_BY(mu_) = nullptr;  // null: no stream is open
  std::deque<std::shared_ptr<const CopyLogEntry>> entries_ ABSL_GUARDED_BY(mu_);
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
