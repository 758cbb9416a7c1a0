#ifndef COHORT_PS_SERVER_COPIES_COPIES_H_
#define COHORT_PS_SERVER_COPIES_COPIES_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "ps_server/copies/copy_log.h"
#include "ps_server/copies/fill_rate.h"

namespace cohort {

// Streams to the servers that keep copies, by number. No call waits.
class CopyTransport {
 public:
  virtual ~CopyTransport() = default;
  // Opens the stream. Copies::OnOpen or OnClosed follows, not during the call.
  virtual void Open(uint64_t stream, const v1::PsRoute& to) = 0;
  // Does nothing if the stream has ended.
  virtual void Send(uint64_t stream, const std::shared_ptr<const CopyLogEntry>& entry) = 0;
  // Copies::Flush follows, not during the call.
  virtual void FlushSoon(uint64_t stream) = 0;
  // After the return, no call for this stream comes.
  virtual void Close(uint64_t stream) = 0;
};

// The logs of the tablets for which this server answers, and their streams. A stream that ends is
// followed by another one; what the copy has not acknowledged is sent again. Thread-safe.
class Copies {
 public:
  struct Options {
    Duration retry = std::chrono::milliseconds(50);
    // A copy that acknowledges nothing for as long is lost.
    Duration patience = std::chrono::seconds(5);
    // Bytes per second of the states that all copies are filled with; 0: no limit.
    uint64_t fill_bytes_per_second = 0;
    CopyFaults faults;
  };
  struct Environment {
    const Clock* clock = nullptr;
    BufferPool* pool = nullptr;
    CopyTransport* transport = nullptr;  // null: this server cannot have copies elsewhere
    // Answers that waited for a copy may go. `acknowledged` is called on the thread of the stream,
    // without a lock; `ended`, because there is no copy any more, with locks of others held.
    std::function<void()> acknowledged;
    std::function<void()> ended;
    std::function<void(const CopyLog& log)> complete;  // a copy that was filling is complete
    std::function<void(const CopyLog& log, const absl::Status& why)> lost;  // the copy is
  };

  Copies(const Options& options, Environment environment)
      : options_(options),
        env_(std::move(environment)),
        fill_rate_(options.fill_bytes_per_second, env_.clock) {}
  ~Copies() { Keep({}); }

  // The log of a tablet with this home: the present one, or a new one of another term or copy.
  std::shared_ptr<CopyLog> LogFor(const v1::TabletHome& home, uint64_t timeline);
  // Ends all other logs.
  void Keep(const std::vector<std::shared_ptr<CopyLog>>& logs);

  void OnOpen(uint64_t stream);
  void OnClosed(uint64_t stream, const absl::Status& why);
  void OnAck(uint64_t stream, const v1::CopyAck& ack);
  // Sends what the log of this stream has to send.
  void Flush(uint64_t stream);
  // To be called several times a second.
  void Tick();
  // Bytes that copies have not acknowledged.
  size_t held_bytes() const;

 private:
  // One stream. What is sent there once it has ended does not get into the next one.
  struct Sink : CopySink {
    Sink(CopyTransport* transport, uint64_t stream) : transport(transport), stream(stream) {}
    void Send(const std::shared_ptr<const CopyLogEntry>& entry) override {
      transport->Send(stream, entry);
    }
    void FlushSoon() override { transport->FlushSoon(stream); }
    CopyTransport* const transport;
    const uint64_t stream;
  };
  struct Link {
    v1::PsRoute to;
    std::shared_ptr<CopyLog> log;
    // Guarded by Copies::mu_.
    bool open = false;
    TimePoint tried;    // to open it
    TimePoint moved;    // the last acknowledgement, or when nothing was left to acknowledge
    std::string why;    // it is not open
    bool told = false;  // that the copy is lost
  };

  std::shared_ptr<Link> Find(uint64_t stream) const;
  void Lose(Link* link, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const Environment env_;
  FillRate fill_rate_;
  mutable Mutex mu_;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 1;
  // By stream. It has another number each time that it is opened.
  std::map<uint64_t, std::shared_ptr<Link>> links_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_COPIES_COPIES_H_
