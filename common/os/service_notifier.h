#ifndef COHORT_COMMON_OS_SERVICE_NOTIFIER_H_
#define COHORT_COMMON_OS_SERVICE_NOTIFIER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"

namespace cohort {

// Reports to the service manager that started this process (sd_notify(3) of systemd): one datagram
// per message to the socket that $NOTIFY_SOCKET names. Without a socket, every call does nothing. A
// message that cannot be sent is dropped. Used by one thread.
//
//   ServiceNotifier notifier(ServiceNotifier::FromEnvironment());  // before any thread starts
//   ... start ...
//   notifier.Ready();
//   while (...) {
//     notifier.SetStatus("step 300");
//     if (notifier.watch_due()) notifier.Watch(task->Turns());
//   }
//   notifier.Stopping(grace);
class ServiceNotifier {
 public:
  struct Options {
    std::string socket;  // a path, or "@" and the name of an abstract socket; "": no manager
    Duration watchdog = Duration::zero();  // the longest time between keep-alives; zero: none
    Duration status_interval = std::chrono::seconds(1);  // the shortest between two status lines
  };
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them, so that processes that
  // this one starts do not report in its name.
  static Options FromEnvironment();

  explicit ServiceNotifier(Options options);
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  // True if there is a service manager.
  bool active() const { return socket_.ok(); }
  bool ready() const { return ready_; }

  // The task serves. Later calls do nothing.
  void Ready();
  // Shows a line in `systemctl status`, if it has changed.
  void SetStatus(std::string_view status);
  // True if it is time to call Watch: the manager wants keep-alives, and a quarter of the longest
  // time between two of them has passed.
  bool watch_due() const;
  // Sends a keep-alive if every number differs from that of the keep-alive before: each counts the
  // turns of one work loop. If one loop makes no turn, no keep-alive is sent, and the manager ends
  // this process.
  void Watch(const std::vector<uint64_t>& turns);
  // Asks for at least `time` from now on for the start or the end that is under way.
  void Extend(Duration time);
  // The task is ending, and takes at most `time`.
  void Stopping(Duration time);

 private:
  void Send(const std::string& message);

  const Options options_;
  UniqueFd socket_;
  bool ready_ = false;
  bool stopping_ = false;
  std::string status_;
  TimePoint next_status_{};
  TimePoint next_watch_{};
  std::vector<uint64_t> turns_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_OS_SERVICE_NOTIFIER_H_
