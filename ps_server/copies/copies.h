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

namespace cohort {

// Streams to the servers that keep copies, by number. Open, Send and Close do not wait.
class CopyTransport {
 public:
  virtual ~CopyTransport() = default;
  // Opens the stream. Copies::OnOpen or OnClosed follows, not during the call.
  virtual void Open(uint64_t stream, const v1::PsRoute& to) = 0;
  virtual void Send(uint64_t stream, const std::shared_ptr<const CopyLogEntry>& entry) = 0;
  // After the return, no call for this stream comes.
  virtual void Close(uint64_t stream) = 0;
};

// The logs of the tablets for which this server answers, and their streams. A stream that ends is
// opened again; what the copy has not acknowledged is sent again. Thread-safe.
class Copies {
 public:
  struct Options {
    Duration retry = std::chrono::milliseconds(50);
    // A copy that acknowledges nothing for as long is lost.
    Duration patience = std::chrono::seconds(5);
    CopyFaults faults;
  };
  struct Environment {
    const Clock* clock = nullptr;
    BufferPool* pool = nullptr;
    CopyTransport* transport = nullptr;  // null: this server cannot have copies elsewhere
    std::function<void()> released;      // answers that waited for a copy may go
    std::function<void(const CopyLog& log)> complete;  // a copy that was filling is complete
    std::function<void(const CopyLog& log, const absl::Status& why)> lost;  // the copy is
  };

  Copies(const Options& options, Environment environment)
      : options_(options), env_(std::move(environment)) {}
  ~Copies() { Keep({}); }

  // The log of a tablet with this home: the present one, or a new one of another term or copy.
  std::shared_ptr<CopyLog> LogFor(const v1::TabletHome& home, uint64_t timeline);
  // Ends all other logs.
  void Keep(const std::vector<std::shared_ptr<CopyLog>>& logs);

  void OnOpen(uint64_t stream);
  void OnClosed(uint64_t stream, const absl::Status& why);
  void OnAck(uint64_t stream, const v1::CopyAck& ack);
  // To be called several times a second.
  void Tick();
  // Bytes that copies have not acknowledged.
  size_t held_bytes() const;

 private:
  struct Link : CopySink {
    void Send(const std::shared_ptr<const CopyLogEntry>& entry) override {
      transport->Send(number, entry);
    }
    CopyTransport* transport = nullptr;
    uint64_t number = 0;
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
  mutable Mutex mu_;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::shared_ptr<Link>> links_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_COPIES_COPIES_H_
