#ifndef COHORT_TESTS_SIMULATOR_PEER_NETWORK_H_
#define COHORT_TESTS_SIMULATOR_PEER_NETWORK_H_

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "common/collective/peer_service.h"
#include "common/collective/peer_transport.h"
#include "tests/simulator/fiber.h"
#include "tests/simulator/network.h"

namespace cohort::simulator {

// The streams of a collective group over the simulated network, in place of gRPC: a process, the
// streams that others have opened to it, and the transport of its group.

class PeerServerStream;

// The thread of a process, which blocks on a fiber. The end of the process ends each wait.
class ProcessThread {
 public:
  ProcessThread(Node* node, World* world) : node_(node), world_(world) {}
  ~ProcessThread() { End(); }

  void Start(std::function<void()> body);
  // Ends the process: its code runs to its end without waiting.
  void End();
  bool dead() const { return dead_; }

  // On the thread: waits until Wake or this time of the world. Returns false if the process is
  // dead.
  bool SleepUntil(int64_t us);
  void Wake();

 private:
  void Resume(uint64_t number);

  Node* const node_;
  World* const world_;
  std::unique_ptr<Fiber> fiber_;
  uint64_t number_ = 0;  // names the wait
  bool waiting_ = false;
  bool dead_ = false;
};

// What one process has of the network.
struct PeerProcess {
  PeerProcess(Node* n, Network* net, bool takes_any_group)
      : node(n),
        network(net),
        thread(n, net->world()),
        service(n->incarnation(), takes_any_group) {}

  // Another process has dialed this one.
  void Accept(const std::shared_ptr<Stream>& wire);
  // The process is dead: nothing that others sent or read holds memory of it.
  void DropStreams();

  Node* const node;
  Network* const network;
  std::function<Node*(int index)> find_node;
  // Reports a violation.
  std::function<void(const std::string& what)> violate;
  ProcessThread thread;
  PeerService service;
  std::list<std::shared_ptr<PeerServerStream>> accepted;
  uint64_t lent_frames = 0;  // whose memory is checked while they are read
};

// The end of a stream at the process that was dialed. What is sent stays in the memory of the
// sender for a while, like that of a socket: it is read when it is written to the wire. The reader
// takes frames when its group polls, and at most kWindowBytes wait for it.
class PeerServerStream final : public cohort::Stream,
                               public std::enable_shared_from_this<PeerServerStream> {
 public:
  static constexpr size_t kWindowBytes = 100'000;

  PeerServerStream(PeerProcess* process, std::shared_ptr<simulator::Stream> wire)
      : process_(process), wire_(std::move(wire)) {}

  void OnMessage(PeerMessage message);
  void OnWireClosed();
  // Ends at once; the process is dead.
  void Drop();

  void Send(Frame frame) override;
  size_t queued_bytes() const override;
  void Close(absl::Status status) override;
  void Abort() override;
  StreamPeer peer() const override { return {"simulated"}; }
  std::string metadata(const std::string& key) const override;

 private:
  struct Queued {
    Frame frame;
    std::string bytes;  // when it was sent
  };

  void Write();
  void WriteFront();
  void SendEnd();
  void ReleaseLater();
  void CheckUnchanged(const Queued& queued) const;
  void EndHandler(const absl::Status& status);

  PeerProcess* const process_;
  const std::shared_ptr<simulator::Stream> wire_;
  std::string name_;
  std::unique_ptr<StreamHandler> handler_;
  std::deque<Queued> queue_;
  std::vector<Queued> dying_;  // the stream has ended, but they are still read
  size_t unread_ = 0;          // bytes on the wire that the reader has not taken
  bool writing_ = false;
  bool closing_ = false;
  bool ended_ = false;
  absl::Status end_;
};

// The transport of one group of a process. The address of a rank is the index of its node.
class SimulatedPeerTransport final : public PeerTransport {
 public:
  explicit SimulatedPeerTransport(PeerProcess* process) : process_(process) {}
  ~SimulatedPeerTransport() override;

  TimePoint Now() const override;
  bool Poll(TimePoint deadline) override;
  void Wake() override;
  absl::Status Prepare(int rank, int worker, const std::string& address) override;
  std::shared_ptr<cohort::Stream> Dial(int rank, const PeerStreamName& name,
                                       StreamHandler* handler) override;
  void Shutdown() override;

 private:
  class Dialed;
  struct Event {
    std::shared_ptr<Dialed> stream;
    bool closed = false;
    std::string bytes;
    absl::Status status;
  };

  void Push(Event event);
  bool HandleOne();
  void CloseAll();

  PeerProcess* const process_;
  std::vector<Node*> nodes_;  // by rank
  std::deque<Event> events_;
  std::list<std::shared_ptr<Dialed>> open_;
  bool woken_ = false;
  mutable int64_t looks_of_dead_ = 0;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_PEER_NETWORK_H_
