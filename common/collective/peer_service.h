#ifndef COHORT_COMMON_COLLECTIVE_PEER_SERVICE_H_
#define COHORT_COMMON_COLLECTIVE_PEER_SERVICE_H_

#include <absl/status/status.h>

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/rpc/stream/stream.h"
#include "common/rpc/stream/stream_server.h"

namespace cohort {

// Names a group of ranks. A later group of the same tasks has a greater name.
struct GroupId {
  uint64_t generation = 0;  // the chief's generation
  uint64_t timeline = 0;
  uint64_t epoch = 0;

  auto operator<=>(const GroupId&) const = default;
};

// What a client says about the stream that it opens: in the stream's metadata, or as the name of a
// SocketStream.
struct PeerStreamName {
  static constexpr char kKey[] = "cohort-collective";

  GroupId group;
  int rank = 0;              // the client's rank
  uint64_t incarnation = 0;  // the client's incarnation
  uint64_t target = 0;       // the incarnation of the server
  // No stream of the group, but a question: is the server's process alive, and will it be or is it
  // a member of the group? The stream ends with OK if so. An older version refuses the stream.
  bool asks = false;

  std::string ToString() const;
  static std::optional<PeerStreamName> Parse(const std::string& text);
};

// The server's side of /cohort.v1.Peer/Collective and of its SocketStreams: passes the streams of
// other ranks to the group of this process. A task has one such service, and one group at a time.
// It answers questions of other ranks itself, on threads that do not compute: a rank that computes
// for long is alive. Thread-safe.
class PeerService {
 public:
  static constexpr char kMethod[] = "/cohort.v1.Peer/Collective";

  // Takes the streams of one group. Called on threads of the server.
  class Acceptor {
   public:
    virtual ~Acceptor() = default;
    // Null refuses the stream.
    virtual std::unique_ptr<StreamHandler> Accept(const PeerStreamName& name,
                                                  std::shared_ptr<Stream> stream) = 0;
    // True if the client is a member of the group, and means this one.
    virtual bool Fits(const PeerStreamName& name) const = 0;
    // A connection for a SocketStream, which the thread of the group accepts or refuses.
    virtual void AcceptSocket(const PeerStreamName& name, UniqueFd connection) = 0;
  };

  // `incarnation`: this process's; 0: it answers questions that mean another one, too.
  // `test_takes_any_group`: a planted bug.
  explicit PeerService(uint64_t incarnation = 0, bool test_takes_any_group = false);

  // The methods for StreamServer::Start. They may outlive this object.
  StreamServer::Methods Methods() const;
  // StreamServer::Options::take_socket, which may outlive this object too.
  std::function<void(UniqueFd)> SocketTaker() const;

  // Passes the streams of `group` to `acceptor` from now on. Error: FailedPrecondition if another
  // group is open, or if `group` is not greater than all groups before it: a process that was
  // stopped and wakes cannot return to an old group.
  absl::Status Open(const GroupId& group, std::shared_ptr<Acceptor> acceptor);
  // Refuses the group's streams from now on.
  void Close();

  // Streams that were refused because they did not fit the open group.
  uint64_t refused() const;
  // The acceptor has refused a stream whose connection it had taken.
  void CountRefused() { state_->refused.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct State {
    uint64_t incarnation = 0;      // constant
    bool takes_any_group = false;  // constant
    mutable Mutex mu;
    std::optional<GroupId> newest ABSL_GUARDED_BY(mu);
    std::shared_ptr<Acceptor> acceptor ABSL_GUARDED_BY(mu);
    std::atomic<uint64_t> refused{0};
  };
  // The acceptor of the group that the stream is for. Null: the stream does not fit, or no group is
  // open.
  static std::shared_ptr<Acceptor> Find(State* state, const std::optional<PeerStreamName>& name);
  // The answer to a question.
  static absl::Status Answer(State* state, const PeerStreamName& name);
  static std::unique_ptr<StreamHandler> Accept(State* state, std::shared_ptr<Stream> stream);
  static void TakeSocket(State* state, UniqueFd connection);

  const std::shared_ptr<State> state_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_PEER_SERVICE_H_
