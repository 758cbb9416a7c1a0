#include "common/checkpoint/lock_lease.h"

#include <optional>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr auto kRenewal = std::chrono::seconds(1);

}  // namespace

LockLease::LockLease(std::shared_ptr<DirectoryLock> lock)
    : lock_(std::move(lock)), thread_([this] { Run(); }) {}

LockLease::~LockLease() {
  {
    MutexLock guard(&mu_);
    end_ = true;
  }
  ended_.SignalAll();
  thread_.join();
}

void LockLease::Run() {
  while (true) {
    {
      MutexLock guard(&mu_);
      const auto next = std::chrono::steady_clock::now() + kRenewal;
      while (!end_ && ended_.WaitUntil(&mu_, next)) {
      }
      if (end_) return;
    }
    lock_->Renew();
  }
}

absl::StatusOr<StandbyLock> AwaitLock(const DirectoryLock::Options& options,
                                      const StandbyOptions& standby) {
  using Steady = std::chrono::steady_clock;
  std::optional<DirectoryLock::Holder> last;
  Steady::time_point changed = Steady::now();
  std::string told;
  while (true) {
    if (standby.interrupted != nullptr && *standby.interrupted) {
      return Cancelled("interrupted while standing by");
    }
    auto taken = DirectoryLock::Take(options);
    if (taken.ok()) return StandbyLock{.lock = *std::move(taken)};
    if (!absl::IsUnavailable(taken.status())) return taken.status();
    std::optional<DirectoryLock::Holder> holder = DirectoryLock::HolderOf(options.directory);
    if (holder.has_value() && holder->name != told) {
      told = holder->name;
      if (standby.waits) standby.waits(told);
    }
    const bool same = holder.has_value() && last.has_value() && *holder == *last;
    // Storage that does not answer says nothing about the holder.
    if (!same) changed = Steady::now();
    last = std::move(holder);
    if (same && last->renews && Steady::now() - changed >= standby.silence) {
      DirectoryLock::Options takeover = options;
      takeover.takeover = true;
      COHORT_ASSIGN_OR_RETURN(auto lock, DirectoryLock::Take(takeover));
      return StandbyLock{.lock = std::move(lock), .took_over = true};
    }
    // No call waits until a process of another host releases or marks a file.
    std::this_thread::sleep_for(standby.poll);
  }
}

}  // namespace cohort
