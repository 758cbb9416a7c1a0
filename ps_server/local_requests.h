#ifndef COHORT_PS_SERVER_LOCAL_REQUESTS_H_
#define COHORT_PS_SERVER_LOCAL_REQUESTS_H_

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "common/base/mutex.h"
#include "common/exchange/local_server.h"
#include "ps_server/data_path.h"

namespace cohort {

// Executes the requests of step threads of this process, on those threads. Connections may outlive
// the server: after End they answer nothing.
class LocalRequests : public LocalServer, public std::enable_shared_from_this<LocalRequests> {
 public:
  // `data_path` stays valid until End.
  explicit LocalRequests(DataPath* data_path) : data_path_(data_path) {}

  std::unique_ptr<LocalConnection> Connect(std::function<void()> wake) override;
  bool ended() const override;
  absl::Status Reside(const DeviceCopies& copies) override;
  bool Handle(const RequestView& request, const DeviceParts& device,
              v1::PushPullResponseHeader* answer) override;
  void Watch(const void* watcher, std::function<void()> wake) override;

  // Wakes the connections whose pulls wait, and the watchers. To be called whenever
  // ParkedRequests::Release is.
  void Release();
  // When it returns, no request is executed, now or later.
  void End();

 private:
  class Connection;

  // Keeps the data path from ending during a call. Returns false if it has ended.
  bool Enter();
  void Leave();
  void WakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddWaiting(Connection* connection);
  void RemoveWaiting(Connection* connection);

  DataPath* const data_path_;
  mutable Mutex mu_;
  CondVar idle_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<Connection*> waiting_ ABSL_GUARDED_BY(mu_);
  std::map<const void*, std::function<void()>> watchers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_LOCAL_REQUESTS_H_
