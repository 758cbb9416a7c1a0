#ifndef COHORT_TESTS_SIMULATOR_NETWORK_H_
#define COHORT_TESTS_SIMULATOR_NETWORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "proto/parameter_server.pb.h"
#include "proto/worker.pb.h"
#include "tests/simulator/world.h"

namespace cohort::simulator {

// Bytes aligned as received payloads are.
using Words = std::vector<uint64_t>;

// One message of the data path with its payload fields (memory, bytes).
template <typename Header>
struct DataMessage {
  Header header;
  std::vector<std::pair<Words, size_t>> payload;
};
using DataRequest = DataMessage<v1::PushPullHeader>;
using DataResponse = DataMessage<v1::PushPullResponseHeader>;

using Message = std::variant<v1::ChiefToWorker, v1::WorkerToChief, v1::ChiefToPs, v1::PsToChief,
                             DataRequest, DataResponse>;

// What the network did to messages.
struct NetworkCounts {
  uint64_t messages = 0;
  uint64_t lost_control = 0;
  uint64_t lost_requests = 0;
  uint64_t lost_responses = 0;
  uint64_t breaks = 0;
  uint64_t cuts = 0;
};

// How long messages take.
struct NetworkShape {
  int64_t latency_us = 100;   // at least
  int64_t jitter_us = 300;    // and up to so much more,
  uint64_t slow_percent = 2;  // but for some, which take
  int64_t slow_us = 20'000;   // up to so long
  int64_t connect_timeout_us = 200'000;
  int64_t keepalive_us = 500'000;  // an end that a cut has silenced for so long closes its stream
  int64_t silence_us = 250'000;    // a stream that ends after so much silence was "lost silently"
};

class Network;

// A stream between two processes, as gRPC's are: messages arrive in order, and a message is never
// lost alone. The stream breaks; of what was under way then, a prefix arrives and the rest is lost.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum Side : int { kDialler = 0, kAcceptor = 1 };
  struct Callbacks {
    std::function<void()> on_open;  // the dialler's
    std::function<void(Message)> on_message;
    std::function<void(bool silent)> on_closed;  // not for the one that closes it
  };

  Stream(Network* network, Node* dialler, Node* acceptor, StreamKind kind)
      : network_(network), kind_(kind), ends_{{dialler}, {acceptor}} {}

  void Set(Side side, Callbacks callbacks) { ends_[side].callbacks = std::move(callbacks); }
  // To the other side; dropped where the stream is closed here.
  void Send(Side from, Message message);
  // Lets go of it: no callback comes any more. The peer is told behind a prefix of what was sent.
  void Close(Side by);
  // The network resets it.
  void Break();
  bool open(Side side) const { return ends_[side].open; }
  // Of Network and Node.
  void Dial();
  void OnDeath(Node* node);
  void OnCut(int64_t until_us);
  bool Between(const Node* a, const Node* b) const;

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
  };

  void Arrive(Side to);
  // Of what is on its way to this side, only a prefix arrives.
  void Lose(Side to, bool all);
  // This side is told, behind what still arrives.
  void TellClosed(Side side, bool silent_counts);
  bool alive(Side side) const;

  Network* const network_;
  const StreamKind kind_;
  End ends_[2];
  bool broken_ = false;  // nothing that is sent from now on arrives
  Flight flight_[2];
};

// All streams, and which tasks cannot reach each other.
class Network {
 public:
  Network(World* world, const NetworkShape& shape) : world_(world), shape_(shape) {}

  // A stream that is being opened: on_open or on_closed follows.
  std::shared_ptr<Stream> Dial(Node* from, Node* to, StreamKind kind, Stream::Callbacks callbacks);
  // Nothing gets through between the two until then.
  void Cut(Node* a, Node* b, int64_t until_us);
  // Breaks the stream of the next message of the data path that is sent, before it has arrived.
  void LoseNext() { lose_next_ = true; }
  bool TakeLoseNext() { return std::exchange(lose_next_, false); }
  // Breaks one stream of this node, if it has one.
  void BreakOne(Node* node);
  // When messages between the two get through again; now where they do.
  int64_t ClearAt(const Node* a, const Node* b) const;

  int64_t Latency();
  World* world() { return world_; }
  const NetworkShape& shape() const { return shape_; }
  NetworkCounts counts;

 private:
  World* const world_;
  const NetworkShape shape_;
  bool lose_next_ = false;
  // Who, and until when.
  std::vector<std::pair<std::pair<const Node*, const Node*>, int64_t>> cuts_;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_NETWORK_H_
