#include "chief/core/membership.h"

#include <algorithm>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

// The number of threads is not in it: it changes no result.
std::string FingerprintText(const v1::NumericFingerprint& fingerprint) {
  return fmt::format("{} on {} with {}", fingerprint.instruction_set(), fingerprint.device_kind(),
                     fingerprint.libraries());
}

}  // namespace

Membership::Membership(const CoreOptions* options, Outbox* outbox)
    : options_(options),
      outbox_(outbox),
      workers_(options->workers.size()),
      ps_(options->ps.size()) {
  if (options->fingerprint == nullptr || options->deterministic == Determinism::kOff) return;
  worker_reference_ = {*options->fingerprint, "the checkpoint"};
}

int Membership::End(const std::vector<std::string>& addresses) {
  size_t end = addresses.size();
  while (end > 0 && addresses[end - 1].empty()) --end;
  return static_cast<int>(end);
}

bool Membership::exists(Task task) const {
  const auto& addresses = task.role == Role::kWorker ? options_->workers : options_->ps;
  return !addresses[static_cast<size_t>(task.index)].empty();
}

std::vector<Task> Membership::tasks() const {
  std::vector<Task> tasks;
  const auto add = [&](Task task) {
    if (exists(task)) tasks.push_back(task);
  };
  for (int i = 0; i < workers(); ++i) add(WorkerTask(i));
  for (int i = 0; i < ps(); ++i) add(PsTask(i));
  return tasks;
}

void Membership::SetLink(Member* member, Link link, int64_t now_us) {
  if (member->link >= Link::kProbed && link < Link::kProbed) member->since_us = now_us;
  member->link = link;
}

void Membership::Ask(Task task, bool probe, int64_t now_us) {
  Member& m = member(task);
  m.asked_us = now_us;
  const auto fill = [&](auto* adopt) {
    adopt->set_job(options_->job);
    adopt->set_chief_incarnation(options_->chief_incarnation);
    adopt->set_probe(probe);
    adopt->set_takeover(options_->takeover);
    SetProtocolVersion(adopt);
    adopt->mutable_expected()->set_type(std::string(RoleName(task.role)));
    adopt->mutable_expected()->set_index(task.index);
    // A worker that has joined has its number from this chief.
    adopt->set_renumbered(options_->renumbered ||
                          (task.role == Role::kPs && IsPlace(*options_, task)));
  };
  if (task.role == Role::kWorker) {
    v1::ChiefToWorker message;
    fill(message.mutable_adopt());
    message.mutable_adopt()->set_pull_ahead(options_->pull_ahead);
    message.mutable_adopt()->set_seed(options_->seed);
    m.request = outbox_->AskWorker(task.index, std::move(message));
  } else {
    v1::ChiefToPs message;
    fill(message.mutable_adopt());
    message.mutable_adopt()->set_directory_token(options_->directory_token);
    message.mutable_adopt()->set_checkpoint_dir(options_->checkpoint_dir);
    m.request = outbox_->AskPs(task.index, std::move(message));
  }
}

void Membership::SetWhyDown(Task task, std::string_view why) {
  for (const std::string& name : {Name(task), task.ToString() + ":"}) {
    if (!why.starts_with(name)) continue;
    why.remove_prefix(name.size());
    why.remove_prefix(std::min(why.find_first_not_of(": "), why.size()));
  }
  member(task).why_down = why;
}

void Membership::Refuse(Task task, const std::string& why, int64_t now_us) {
  Member& m = member(task);
  m.refused = true;
  SetWhyDown(task, why);
  SetLink(&m, Link::kDown, now_us);
  outbox_->effects()->Warn("task_refused", Lost(task));
}

void Membership::OnConnected(Task task, int64_t now_us) {
  Member& m = member(task);
  if (m.refused) return;
  m.heard_us = now_us;
  m.hears_other = false;
  // Another process may be at the other end.
  if (m.figures->memory_bytes() > 0) m.lost_memory_bytes = m.figures->memory_bytes();
  m.figures = std::make_shared<const v1::TaskFigures>();
  const bool probe = outbox_->generation() == 0;
  SetLink(&m, probe ? Link::kProbing : Link::kAdopting, now_us);
  Ask(task, probe, now_us);
}

void Membership::OnDisconnected(Task task, const std::string& why, int64_t now_us) {
  Member& m = member(task);
  SetLink(&m, Link::kDown, now_us);
  SetWhyDown(task, why);
}

absl::Status Membership::CheckHello(Task task, const Hello& hello) const {
  COHORT_RETURN_IF_ERROR(CheckProtocol(Name(task), hello.protocol, "this chief"));
  if (options_->loss_scaling.enabled() && hello.protocol < kLossScaleProtocol) {
    return WithExitCode(
        FailedPrecondition("{} is of a version without loss scales, and the job has "
                           "`mixed_precision: float16`: install the chief's version",
                           Name(task)),
        ExitCode::kConfig);
  }
  if (options_->ring && hello.protocol < kRingProtocol) {
    return WithExitCode(
        FailedPrecondition("{} is of a version without rings, and the job has `communication: "
                           "ring`: install the chief's version, or write `communication: direct`",
                           Name(task)),
        ExitCode::kConfig);
  }
  if (options_->hashed_rows && hello.protocol < kHashedRowsProtocol) {
    return WithExitCode(
        FailedPrecondition("{} is of a version that does not partition rows by hash, and the job "
                           "has a partitioner with `rows: hash`: install the chief's version",
                           Name(task)),
        ExitCode::kConfig);
  }
  if (options_->copies && task.role == Role::kPs && hello.protocol < kCopiesProtocol) {
    return WithExitCode(
        FailedPrecondition("{} is of a version without copies of variables, and the job has "
                           "`replicas: 2`: install the chief's version, or write `replicas: 1`",
                           Name(task)),
        ExitCode::kConfig);
  }
  if (hello.task.type() != RoleName(task.role) || hello.task.index() != task.index) {
    return WithExitCode(
        FailedPrecondition("{} says that it is {}:{}: TF_CONFIG of the two tasks differ",
                           Name(task), hello.task.type(), hello.task.index()),
        ExitCode::kConfig);
  }
  if (!hello.sees_checkpoint_dir) {
    return WithExitCode(
        FailedPrecondition(
            "{} does not see the checkpoint directory {} that the chief sees: it must "
            "be the same directory for both (a shared file system)",
            Name(task), options_->checkpoint_dir),
        ExitCode::kConfig);
  }
  return task.role == Role::kWorker ? CheckClasses(task, hello) : absl::OkStatus();
}

absl::Status Membership::CheckClasses(Task task, const Hello& hello) const {
  for (const NeededClass& needed : options_->needed_classes) {
    if (std::find(hello.classes.begin(), hello.classes.end(), needed.name) != hello.classes.end()) {
      continue;
    }
    const std::string why =
        needed.plugin.empty()
            ? "which the program of the chief registers: give the worker a plugin that has it"
            : fmt::format("which the chief has from plugin {}: start the worker with --plugin, too",
                          needed.plugin);
    return WithExitCode(FailedPrecondition("{} has no {}, {}", Name(task), needed.name, why),
                        ExitCode::kConfig);
  }
  return absl::OkStatus();
}

absl::Status Membership::CheckFingerprint(Task task, const Hello& hello) {
  if (options_->deterministic == Determinism::kOff || !hello.fingerprint.has_value()) {
    return absl::OkStatus();
  }
  Reference& reference = task.role == Role::kWorker ? worker_reference_ : ps_reference_;
  if (!reference.fingerprint.has_value()) {
    reference = {hello.fingerprint, Name(task)};
    return absl::OkStatus();
  }
  const std::string text = FingerprintText(*hello.fingerprint);
  const std::string expected = FingerprintText(*reference.fingerprint);
  if (text == expected) return absl::OkStatus();
  const std::string what =
      fmt::format("{} calculates by {}, but {} by {}", Name(task), text, reference.by, expected);
  if (options_->deterministic == Determinism::kRequired) {
    return WithExitCode(
        FailedPrecondition("{}: with `deterministic: true` all must calculate alike. Run {} on a "
                           "machine of the same kind, or choose `deterministic: auto`",
                           what, task.ToString()),
        ExitCode::kConfig);
  }
  if (!std::exchange(member(task).differs, true)) {
    outbox_->effects()->Warn("fingerprint_differs",
                             what + ": the last bits of the weights may depend on the tasks");
  }
  return absl::OkStatus();
}

void Membership::Hear(Task task, uint64_t number, Heard* heard) const {
  if (number > heard->number) *heard = {number, Name(task)};
}

Membership::Verdict Membership::OnAdopted(Task task, uint64_t incarnation, int64_t now_us) {
  Member& m = member(task);
  const bool returns = m.known;
  const bool reborn = returns && m.incarnation != incarnation;
  m.known = true;
  m.incarnation = incarnation;
  SetLink(&m, Link::kAdopted, now_us);
  m.why_down.clear();
  outbox_->effects()->Note("task_adopted",
                           fmt::format("{} incarnation {:016x}{}", Name(task), incarnation,
                                       reborn    ? ", a new process"
                                       : returns ? ", which has returned"
                                                 : ""));
  return reborn ? Verdict::kReborn : Verdict::kAdopted;
}

Membership::Verdict Membership::OnHello(Task task, const Hello& hello, int64_t now_us) {
  Member& m = member(task);
  if (m.link != Link::kProbing && m.link != Link::kAdopting) return Verdict::kIgnored;
  if (hello.request != 0 && hello.request != m.request) return Verdict::kIgnored;
  absl::Status bad = CheckHello(task, hello);
  if (bad.ok()) bad = CheckFingerprint(task, hello);
  if (!bad.ok()) {
    if (IsPlace(*options_, task)) {
      Refuse(task, std::string(bad.message()), now_us);
      return Verdict::kIgnored;
    }
    // While the job runs, the chief waits for a task that it can use.
    SetWhyDown(task, std::string(bad.message()));
    outbox_->effects()->Note("task_refused", Lost(task));
    failure_ = std::move(bad);
    return Verdict::kFatal;
  }
  Hear(task, hello.heard_generation, &heard_generation_);
  Hear(task, hello.timeline, &heard_timeline_);
  if (m.link == Link::kAdopting) return OnAdopted(task, hello.incarnation, now_us);
  m.incarnation = hello.incarnation;
  m.hears_other = hello.hears_chief && !options_->takeover;
  if (hello.hears_chief && IsPlace(*options_, task) && hello.job != options_->job) {
    Refuse(task, fmt::format("{} works for another job, {}", Name(task), hello.job), now_us);
    return Verdict::kIgnored;
  }
  if (m.hears_other) {
    if (hello.chief_lost) {
      // That chief is dead, or alive and disconnected. The task decides after a timeout. A task
      // that was stopped when the previous chief was killed cannot know it earlier.
      m.refused_since_us = -1;
      m.why_down = fmt::format(
          "has lost another chief, of generation {}, and waits for it (--takeover does not wait)",
          hello.heard_generation);
      return Verdict::kIgnored;
    }
    if (m.refused_since_us < 0) m.refused_since_us = now_us;
    if (now_us - m.refused_since_us < options_->probe_patience_us) {
      m.why_down = fmt::format("hears another chief, of generation {}", hello.heard_generation);
      return Verdict::kIgnored;
    }
    failure_ = WithExitCode(
        FailedPrecondition(
            "{} is at work for another chief (job {}, generation {}): end that chief, "
            "or start this one with --takeover (cohort-chief and cohort run) if it is dead",
            Name(task), hello.job, hello.heard_generation),
        ExitCode::kUnavailable);
    return Verdict::kFatal;
  }
  m.refused_since_us = -1;
  m.why_down.clear();
  SetLink(&m, Link::kProbed, now_us);
  return Verdict::kProbed;
}

void Membership::AdoptAll(int64_t now_us) {
  const auto adopt = [&](Task task) {
    Member& m = member(task);
    if (m.link != Link::kProbed && m.link != Link::kProbing) return;
    SetLink(&m, Link::kAdopting, now_us);
    m.heard_us = now_us;
    Ask(task, /*probe=*/false, now_us);
  };
  for (int i = 0; i < ps(); ++i) adopt(PsTask(i));
  for (int i = 0; i < workers(); ++i) adopt(WorkerTask(i));
}

void Membership::TickMember(Task task, int64_t now_us) {
  Member& m = member(task);
  if (m.link == Link::kDown) return;
  if (m.link != Link::kProbed && now_us - m.heard_us > options_->silence_us) {
    const std::string why =
        fmt::format("nothing heard for {} s", (now_us - m.heard_us) / 1'000'000);
    m.heard_us = now_us;
    outbox_->effects()->Note("task_silent", fmt::format("{}: {}", Name(task), why));
    outbox_->effects()->Reconnect(task, why);
    return;
  }
  if (m.link == Link::kProbing && now_us - m.asked_us >= options_->probe_again_us) {
    Ask(task, /*probe=*/true, now_us);
  } else if (m.link == Link::kAdopted && now_us - m.asked_us >= options_->ping_interval_us) {
    m.asked_us = now_us;
    if (task.role == Role::kWorker) {
      v1::ChiefToWorker message;
      message.mutable_ping()->set_sent_unix_micros(static_cast<uint64_t>(now_us));
      outbox_->ToWorker(task.index, std::move(message));
    } else {
      v1::ChiefToPs message;
      message.mutable_ping()->set_sent_unix_micros(static_cast<uint64_t>(now_us));
      outbox_->ToPs(task.index, std::move(message));
    }
  }
}

void Membership::Tick(int64_t now_us) {
  for (int i = 0; i < ps(); ++i) TickMember(PsTask(i), now_us);
  for (int i = 0; i < workers(); ++i) TickMember(WorkerTask(i), now_us);
}

int Membership::count(Role role, Link at_least) const {
  const auto& members = role == Role::kWorker ? workers_ : ps_;
  return static_cast<int>(std::count_if(members.begin(), members.end(),
                                        [&](const Member& m) { return m.link >= at_least; }));
}

bool Membership::all(Role role, Link at_least, bool joined) const {
  const auto& members = role == Role::kWorker ? workers_ : ps_;
  for (int i = 0; i < static_cast<int>(members.size()); ++i) {
    const Task task{role, i};
    const bool counts = exists(task) && (joined || !IsPlace(*options_, task));
    if (counts && !member(task).refused && member(task).link < at_least) return false;
  }
  return true;
}

bool Membership::any_worker_hears_other() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Member& m) { return m.link == Link::kProbing && m.hears_other; });
}

TaskReport Membership::ReportOf(Task task, int64_t now_us) const {
  const Member& m = member(task);
  const auto& addresses = task.role == Role::kWorker ? options_->workers : options_->ps;
  const bool just_lost = m.link == Link::kDown && m.figures->memory_bytes() > 0;
  return {.address = addresses[static_cast<size_t>(task.index)],
          .connected = m.link == Link::kAdopted,
          .heard_seconds = static_cast<double>(now_us - m.heard_us) / 1e6,
          .memory_bytes = m.figures->memory_bytes(),
          .lost_memory_bytes = just_lost ? m.figures->memory_bytes() : m.lost_memory_bytes,
          .sent_bytes = m.figures->sent_bytes(),
          .received_bytes = m.figures->received_bytes(),
          .pushes = m.figures->pushes(),
          .figures = m.figures};
}

std::string Membership::Missing(int64_t now_us) const {
  std::string text;
  const Link wanted = outbox_->generation() == 0 ? Link::kProbed : Link::kAdopted;
  const auto look = [&](Task task) {
    const Member& m = member(task);
    if (m.link >= wanted || !exists(task)) return;
    const bool replica = IsReplicasPart(*options_, task);
    if (replica && member(WorkerTask(task.index)).link < wanted) return;  // named as that worker
    text +=
        fmt::format("{}{}, {} s{}{}", text.empty() ? "" : "; ", Name(task),
                    (now_us - m.since_us) / 1'000'000, m.why_down.empty() ? "" : ": ", m.why_down);
  };
  for (int i = 0; i < ps(); ++i) look(PsTask(i));
  for (int i = 0; i < workers(); ++i) look(WorkerTask(i));
  return text;
}

}  // namespace cohort
