#ifndef COHORT_TESTS_SIMULATOR_NETWORK_H_
#define COHORT_TESTS_SIMULATOR_NETWORK_H_

#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/parameter_server.pb.h"
#include "proto/worker.pb.h"
#include "tests/simulator/world.h"

namespace cohort::simulator {

// Bytes with the alignment of received payloads.
using Words = std::vector<uint64_t>;

// One message of the data path with its payload fields (memory, bytes).
template <typename Header>
struct DataMessage {
  Header header;
  std::vector<std::pair<Words, size_t>> payload;
  std::shared_ptr<const void> counts;  // until it has arrived or is lost; may be null
};
using DataRequest = DataMessage<v1::PushPullHeader>;
using DataResponse = DataMessage<v1::PushPullResponseHeader>;

// An entry of the log of a tablet, on its way to the copy.
struct CopyMessage {
  v1::CopyEntry entry;
  DataRequest push;  // if the entry is one
};

// What travels between two ranks of a collective group (peer_network.h): what gRPC makes of a
// stream.
struct PeerMessage {
  enum class Kind : uint8_t {
    kOpen,       // the dialler names the stream: `bytes` is the metadata
    kFrame,      // `bytes`
    kRead,       // the dialler has read a frame of `read` bytes
    kHalfClose,  // the dialler closes the stream cleanly
    kEnd,        // the acceptor ends the stream with `status`
  };
  Kind kind = Kind::kFrame;
  std::string bytes;
  uint64_t read = 0;
  absl::Status status;
};

using Message = std::variant<v1::ChiefToWorker, v1::WorkerToChief, v1::ChiefToPs, v1::PsToChief,
                             DataRequest, DataResponse, PeerMessage, CopyMessage, v1::CopyAck>;

// What the network did to messages.
struct NetworkCounts {
  uint64_t messages = 0;
  uint64_t lost_control = 0;
  uint64_t lost_requests = 0;
  uint64_t lost_responses = 0;
  uint64_t breaks = 0;
  uint64_t cuts = 0;
  uint64_t one_way_cuts = 0;  // among them
  uint64_t doubled = 0;       // requests and answers that were delivered twice
};

// How long messages take.
struct NetworkShape {
  int64_t latency_us = 100;   // the least
  int64_t jitter_us = 300;    // the most that is added to it
  uint64_t slow_percent = 2;  // messages that take longer:
  int64_t slow_us = 20'000;   // the most for these
  int64_t connect_timeout_us = 200'000;
  // During a cut, an end that hears nothing for this time closes its stream.
  int64_t keepalive_us = 500'000;
  // A stream that ends after this time of silence is "lost silently".
  int64_t silence_us = 250'000;
  // How fast the messages of the data path leave, in each direction of a stream; 0: at once.
  uint64_t bytes_per_second = 0;
  // Requests and answers of the data path that are delivered twice. Only a network of messages can
  // do that; a proxy of a byte stream cannot.
  uint64_t double_percent = 0;
};

class Network;

// A stream between two processes, like those of gRPC: messages arrive in order, and a message is
// never lost alone. When a stream breaks, a prefix of the messages in flight arrives, and the rest
// is lost.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum Side : int { kDialler = 0, kAcceptor = 1 };
  struct Callbacks {
    std::function<void()> on_open;  // only for the dialler
    std::function<void(Message)> on_message;
    std::function<void(bool silent)> on_closed;  // not for the side that closes it
  };

  Stream(Network* network, Node* dialler, Node* acceptor, StreamKind kind)
      : network_(network), kind_(kind), ends_{{dialler}, {acceptor}} {}

  void Set(Side side, Callbacks callbacks) { ends_[side].callbacks = std::move(callbacks); }
  // Sends to the other side. Drops the message if the stream is closed at this side.
  void Send(Side from, Message message);
  // Closes this side: it gets no more callbacks. The peer receives a prefix of what was sent, and
  // then on_closed.
  void Close(Side by);
  // The network resets the stream.
  void Break();
  bool open(Side side) const { return ends_[side].open; }
  // Only Network and Node call these.
  void Dial();
  void OnDeath(Node* node);
  void OnCut(int64_t until_us);
  bool Between(const Node* a, const Node* b) const;
  // Bytes of the data path that have arrived at this side so far.
  uint64_t arrived(Side side) const { return flight_[side].arrived; }

 private:
  struct End {
    Node* node = nullptr;
    uint64_t life = 0;
    bool open = false;
    int64_t heard_us = 0;
    Callbacks callbacks;
  };
  struct Flight {
    std::deque<Message> messages;  // on their way to this side
    int64_t last_us = 0;           // arrival of the last
    int64_t busy_until_us = 0;     // when the link has taken the last
    uint64_t arrived = 0;          // bytes of the data path
    std::vector<Message> request;  // the messages of one request that have arrived, to be doubled
  };

  void Arrive(Side to);
  void Deliver(Side to, Message message);
  void DeliverAgain(Side to, const Message& message);
  // Drops the messages in flight to this side, except a prefix.
  void Lose(Side to, bool all);
  // Reports the close to this side, after the messages that still arrive.
  void TellClosed(Side side, bool silent_counts);
  bool alive(Side side) const;

  Network* const network_;
  const StreamKind kind_;
  End ends_[2];
  bool broken_ = false;  // messages that are sent from now on do not arrive
  Flight flight_[2];
};

// All streams, and the pairs of tasks that cannot reach each other.
class Network {
 public:
  Network(World* world, const NetworkShape& shape) : world_(world), shape_(shape) {}

  // Starts to open a stream: on_open or on_closed follows.
  std::shared_ptr<Stream> Dial(Node* from, Node* to, StreamKind kind, Stream::Callbacks callbacks);
  // No message passes between the two until then. One way: only those from `a` to `b` do not.
  void Cut(Node* a, Node* b, int64_t until_us, bool one_way = false);
  // Breaks the stream of the next message of the data path that is sent, before it has arrived.
  void LoseNext() { lose_next_ = true; }
  bool TakeLoseNext() { return std::exchange(lose_next_, false); }
  // Breaks one stream of this node, if it has one.
  void BreakOne(Node* node);
  // The time from which messages pass from one to the other; now if they pass already.
  int64_t ClearAt(const Node* from, const Node* to) const;

  int64_t Latency();
  World* world() { return world_; }
  const NetworkShape& shape() const { return shape_; }
  NetworkCounts counts;

 private:
  World* const world_;
  const NetworkShape shape_;
  bool lose_next_ = false;
  // A way that no message passes until then.
  struct CutWay {
    const Node* from;
    const Node* to;
    int64_t until_us;
  };
  std::vector<CutWay> cuts_;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_NETWORK_H_
