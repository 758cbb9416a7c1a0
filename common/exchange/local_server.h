#ifndef COHORT_COMMON_EXCHANGE_LOCAL_SERVER_H_
#define COHORT_COMMON_EXCHANGE_LOCAL_SERVER_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "common/exchange/exchange_message.h"
#include "common/optimizers/device_copies.h"

namespace cohort {

struct RequestView;

// One step thread's way to a parameter server of this process: calls instead of messages. The
// server reads gradients where the step has written them, and the answer references the server's
// blocks. Used by one thread.
//
//   Send ─► the answer is there ─────────────────────────────► Take
//        └► the pull waits for CloseStep ─► `wake` ─► Take ──────┘
class LocalConnection {
 public:
  virtual ~LocalConnection() = default;

  // Executes a request, or keeps it if its pull must wait for CloseStep. The payloads stay valid
  // until its answer was taken, or the next Send or Drop.
  virtual void Send(std::span<const ExchangeMessage> messages) = 0;
  // Receives an answer, as Exchange::OnResponse does: values that are lent stay as they are until a
  // request no longer names the answer among those that the client reads.
  using Taker =
      absl::FunctionRef<void(const v1::PushPullResponseHeader&, std::span<const PayloadPieces>,
                             std::span<const uint8_t> lent)>;
  // Gives the answer to `take`, if it is there. Returns false if there is no answer yet. A server
  // that has ended never answers.
  virtual bool Take(Taker take) = 0;
  // True if a request waits for its answer.
  virtual bool pending() const = 0;
  // Forgets the request.
  virtual void Drop() = 0;
};

// A parameter server of this process. Thread-safe.
class LocalServer {
 public:
  virtual ~LocalServer() = default;
  // `wake` is called, on any thread, when Take of a waiting request is worth a try. It must not
  // call the connection. It is not called after the connection's end. Null if the server has ended.
  virtual std::unique_ptr<LocalConnection> Connect(std::function<void()> wake) = 0;
  virtual bool ended() const = 0;

  // Gives the variables copies on devices, where steps read and update them. Errors: Unavailable:
  // it serves no variables now; others: they cannot lie there.
  virtual absl::Status Reside(const DeviceCopies& copies) = 0;
  // Executes a request of a step on such a device, on this thread. Returns false if it has no
  // answer now: its pull must wait for CloseStep, or the server has ended.
  virtual bool Handle(const RequestView& request, const DeviceParts& device,
                      v1::PushPullResponseHeader* answer) = 0;
  // Calls `wake`, on any thread, when another try is worth it. It must not call the server. Null
  // ends that before this returns.
  virtual void Watch(const void* watcher, std::function<void()> wake) = 0;
};

// The parameter servers of this process, by incarnation, and the devices of its workers.
// Thread-safe.
class LocalServers {
 public:
  // `homes`: the number of workers on whose devices the variables live: those of ps:i on that of
  // worker i. 0: they live in the host's memory.
  explicit LocalServers(int homes = 0) : homes_(static_cast<size_t>(homes)) {}

  void Add(uint64_t incarnation, int index, std::shared_ptr<LocalServer> server) {
    MutexLock lock(&mu_);
    servers_[incarnation] = {index, std::move(server)};
  }
  void Remove(uint64_t incarnation) {
    MutexLock lock(&mu_);
    servers_.erase(incarnation);
  }
  // A worker has this device, and no other. All are added before the first step.
  void AddDevice(int worker, std::shared_ptr<Device> device);
  // The reader of a job's variables on the device of this worker. Null: they live in the host's
  // memory, because a worker has no device. `job`: counts the jobs of this process; each has
  // variables of its own. Errors: those of LocalServer::Reside; then all live in the host's memory.
  absl::StatusOr<DeviceReader> PlaceVariables(int worker, uint64_t job);
  // Null if the server with this incarnation is not one of this process.
  std::shared_ptr<LocalServer> Find(uint64_t incarnation) const {
    MutexLock lock(&mu_);
    const auto it = servers_.find(incarnation);
    return it == servers_.end() ? nullptr : it->second.server;
  }

 private:
  struct Server {
    int index = 0;
    std::shared_ptr<LocalServer> server;
  };

  const size_t homes_;
  mutable Mutex mu_;
  std::map<uint64_t, Server> servers_ ABSL_GUARDED_BY(mu_);
  std::map<int, std::shared_ptr<Device>> devices_ ABSL_GUARDED_BY(mu_);  // by worker
  // Readers in the order of devices_. None before all servers have moved their variables there.
  DeviceCopies copies_ ABSL_GUARDED_BY(mu_);
  uint64_t job_ ABSL_GUARDED_BY(mu_) = 0;  // theirs
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_LOCAL_SERVER_H_
