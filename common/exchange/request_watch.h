#ifndef COHORT_COMMON_EXCHANGE_REQUEST_WATCH_H_
#define COHORT_COMMON_EXCHANGE_REQUEST_WATCH_H_

#include <cstdint>

namespace cohort {

// What has moved since a request was sent: bytes that the transport took from its stream, and bytes
// that its stream has received. Both only grow.
struct BytesMoved {
  uint64_t sent = 0;
  uint64_t received = 0;
};

// Tells a request that is slow from one that is lost. Only silence counts: a request is lost if for
// `timeout_us` no byte has moved and no answer has come. It looks at the bytes only a few times per
// timeout, so a quick request never looks.
//
// The last megabytes of a large push leave the stream before they leave the host: gRPC and the
// sockets hold up to kInTransitBytes. On a slow link nothing moves while they drain, so the limit
// grows by the time that they need at the rate of this request.
class RequestWatch {
 public:
  static constexpr uint64_t kInTransitBytes = 8 << 20;

  enum class Verdict {
    kWait,
    kSlow,    // wait; the timeout has passed and bytes still move. Once per request
    kSilent,  // the request is lost
  };

  // A request was sent.
  void Begin(int64_t now_us, int64_t timeout_us);
  // A part of the answer, or a promise of it, came.
  void Heard(int64_t now_us) { quiet_since_us_ = now_us; }
  // Nobody has looked or received for this time: it does not count.
  void Unattended(int64_t us);
  // To be called at next_look_us.
  Verdict Look(const BytesMoved& moved, int64_t now_us);

  int64_t next_look_us() const { return next_look_us_; }
  int64_t age_us(int64_t now_us) const { return now_us - begin_us_; }
  int64_t quiet_us(int64_t now_us) const { return now_us - quiet_since_us_; }

 private:
  int64_t Patience() const;

  int64_t timeout_us_ = 0;
  int64_t begin_us_ = 0;
  int64_t quiet_since_us_ = 0;
  int64_t next_look_us_ = 0;
  uint64_t moved_ = 0;        // at the last look
  int64_t moved_for_us_ = 0;  // the age at the last look that saw bytes move
  bool slow_ = false;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_REQUEST_WATCH_H_
