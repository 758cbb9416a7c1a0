#include "chief/core/joined_tasks.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace cohort {

std::vector<Task> JoinedTasks::All() const {
  std::vector<Task> all;
  for (const Task task : membership_->tasks()) {
    if (IsPlace(*options_, task)) all.push_back(task);
  }
  return all;
}

uint64_t JoinedTasks::Journal() {
  v1::JournalRecord record;
  v1::JoinedTasks* const joined = record.mutable_joined();
  for (const Task task : All()) {
    v1::JoinedTask* const out = joined->add_tasks();
    out->mutable_task()->set_type(std::string(RoleName(task.role)));
    out->mutable_task()->set_index(task.index);
    out->set_address(AddressOf(task));
  }
  return outbox_->Append(std::move(record));
}

absl::StatusOr<Task> JoinedTasks::Join(Role role, const std::string& address, int64_t now_us) {
  const std::vector<std::string>& known = addresses(role);
  const auto same = std::find(known.begin(), known.end(), address);
  const auto index_of = [&](auto it) { return static_cast<int>(it - known.begin()); };
  if (same != known.end()) {
    const Task task{role, index_of(same)};
    if (IsPlace(*options_, task)) return task;
    return AlreadyExists("{} is {} of the chief's TF_CONFIG: start it with that TF_CONFIG", address,
                         task.ToString());
  }
  const auto free = std::find(known.begin(), known.end(), "");
  if (free == known.end()) {
    return ResourceExhausted(
        "all {} places for a {} that joins are taken; one is free when its {} has been away for "
        "{} s",
        options_->places(role), RoleName(role), RoleName(role),
        options_->join_grace_us / 1'000'000);
  }
  const Task task{role, index_of(free)};
  AddressOf(task) = address;
  membership_->OnJoined(task, now_us);
  waiting_.push_back({task, Journal()});
  outbox_->effects()->Note("task_joins", TaskName(*options_, task));
  return task;
}

bool JoinedTasks::settled(Task task) const {
  return std::none_of(waiting_.begin(), waiting_.end(),
                      [&](const Waiting& w) { return w.task == task; });
}

void JoinedTasks::OnJournaled(uint64_t record) {
  for (size_t i = 0; i < waiting_.size();) {
    if (waiting_[i].record > record) {
      ++i;
      continue;
    }
    const Task task = waiting_[i].task;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    outbox_->effects()->DialJoined(task, AddressOf(task));
  }
}

std::vector<Task> JoinedTasks::Tick(int64_t now_us) {
  std::vector<Task> gone;
  const int64_t server_grace_us =
      std::max(options_->join_grace_us, MicrosFromSeconds(options_->server_grace_s));
  for (const Task task : All()) {
    const Member& m = membership_->member(task);
    if (m.link != Link::kDown || !settled(task)) continue;
    const int64_t grace_us = task.role == Role::kPs ? server_grace_us : options_->join_grace_us;
    const bool waits = !m.refused && !options_->test_faults.forgets_at_once;
    if (waits && now_us - m.since_us < grace_us) continue;
    outbox_->effects()->Note("task_left", membership_->Lost(task));
    outbox_->effects()->HangUp(task);
    AddressOf(task).clear();
    gone.push_back(task);
  }
  if (!gone.empty()) Journal();
  return gone;
}

v1::JoinedTasks JoinedIn(const std::vector<v1::JournalRecord>& records) {
  v1::JoinedTasks joined;
  for (const v1::JournalRecord& record : records) {
    if (record.has_joined()) joined = record.joined();
    if (record.has_base()) joined = record.base().joined();
  }
  return joined;
}

namespace {

// Returns the number of places.
size_t AddPlaces(const v1::JoinedTasks& joined, Role role, size_t places,
                 std::vector<std::string>* addresses) {
  const size_t named = addresses->size();
  for (const v1::JoinedTask& task : joined.tasks()) {
    if (RoleFromName(task.task().type()) != role || task.task().index() < 0) continue;
    const auto index = static_cast<size_t>(task.task().index());
    const auto end = addresses->end();
    const bool known = std::find(addresses->begin(), end, task.address()) != end;
    if (index < named || known) continue;
    addresses->resize(std::max(addresses->size(), index + 1));
    (*addresses)[index] = task.address();
  }
  addresses->resize(std::max(addresses->size(), named + places));
  return addresses->size() - named;
}

}  // namespace

void AddPlaces(const v1::JoinedTasks& joined, size_t workers, size_t servers,
               CoreOptions* options) {
  options->worker_places = AddPlaces(joined, Role::kWorker, workers, &options->workers);
  options->ps_places = AddPlaces(joined, Role::kPs, servers, &options->ps);
}

}  // namespace cohort
