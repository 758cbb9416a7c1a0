// Random schedules of messages, deaths and cuts: whatever happens, each place ends up once in the
// state of every server, and its figures are folded once; and workers read on where they were. And
// a base of the journal stands for the records before it.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "chief/core/core_test_world.h"
#include "chief/core/journal_state.h"
#include "chief/core/recovery_test_util.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr uint64_t kPlaces = 60;

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : world_(3, 2, seed) { world_.options.cut_deadline_s = 0.3; }

  // What has happened, so that a run that survives nothing is found.
  struct Seen {
    uint64_t lives = 0, rollbacks = 0, requeued = 0, cuts = 0, late = 0;
  };

  const TestWorld& world() const { return world_; }

  void Run(Seen* seen) {
    for (int i = 0; i < 200'000 && !Done(); ++i) {
      Act(/*faults=*/i < 4000);
      Client();
      if (i % 16 == 0) CheckReaders();
    }
    REQUIRE(Done());
    CheckReaders();
    CheckRates();
    Count();
    seen->lives += seen_.lives;
    seen->rollbacks += world_.core().view().timeline() - 1;
    seen->requeued += seen_.requeued;
    seen->cuts += world_.checkpoints.size();
    seen->late += seen_.late;
    CHECK(world_.core().view().settlement.metrics().at("n").Scalar(kTotal) == kPlaces);
    for (const FakePs& ps : world_.ps) {
      CHECK(ps.places.size() == kPlaces);
      for (const auto& [place, times] : ps.places) {
        INFO("place " << place);
        CHECK(times == 1);
      }
    }
  }

 private:
  void Count() {
    ++seen_.lives;
    seen_.requeued += world_.core().view().counters().requeued;
    seen_.late += world_.core().view().counters().late_results;
  }
  uint64_t Pick(uint64_t n) { return world_.random() % n; }

  bool Done() {
    for (const FakePs& ps : world_.ps) {
      if (!ps.has_tablet) return false;  // it died, and the chief has not noticed
    }
    return alive_ && world_.core().view().served() &&
           world_.core().view().settlement.steps() == kPlaces && world_.core().view().idle() &&
           world_.core().view().Unfinished().empty() &&
           !world_.core().view().steps.rates().changing();
  }

  // All servers have the rates of the chief.
  void CheckRates() {
    const v1::LearningRates& rates = world_.core().view().steps.rates().rates();
    for (const FakePs& ps : world_.ps) {
      REQUIRE(ps.learning_rates.ShortDebugString() == rates.ShortDebugString());
    }
  }

  // A step that counts has read its batch; and no reader is behind what the chief knows of it.
  void CheckReaders() {
    if (!alive_) return;
    const CoordinatorCore& core = world_.core();
    if (core.view().phase() != CoordinatorCore::Phase::kReady) return;
    uint64_t read = 0;
    for (uint32_t worker = 0; worker < world_.workers.size(); ++worker) {
      const uint64_t known = core.view().settlement.readers().Of("data", worker);
      const auto& readers = world_.workers[worker].readers;
      const auto reader = readers.find("data");
      read += known;
      if (reader == readers.end() || reader->second.timeline() != core.view().timeline()) continue;
      REQUIRE(reader->second.batches() >= known);
    }
    REQUIRE(read >= core.view().settlement.steps());
  }

  void Act(bool faults) {
    if (!alive_) {
      world_.StartChief();
      world_.ReadData();
      alive_ = true;
    }
    const int worker = static_cast<int>(Pick(3));
    const int ps = static_cast<int>(Pick(2));
    const uint64_t what = Pick(1000);
    if (what < 200) {
      world_.Work(worker);
    } else if (what < 400) {
      world_.ToWorker(worker);
    } else if (what < 550) {
      world_.FromWorker(worker);
    } else if (what < 650) {
      world_.ToPs(ps);
    } else if (what < 750) {
      world_.FromPs(ps);
    } else if (what < 800) {
      world_.FlushJournal(1 + Pick(4));
    } else if (what < 900) {
      world_.Advance(static_cast<int64_t>(Pick(100'000)));
      world_.DeliverOne();
    } else if (what < 960) {
      Pick(2) == 0 ? world_.Connect(WorkerTask(worker)) : world_.Connect(PsTask(ps));
    } else if (faults) {
      Fault(what - 960, worker, ps);
    }
  }

  void Fault(uint64_t what, int worker, int ps) {
    if (what < 6) {
      world_.KillWorker(worker);
    } else if (what < 12) {
      world_.Disconnect(WorkerTask(worker));
    } else if (what < 14) {
      world_.Disconnect(PsTask(ps));
    } else if (what < 16) {
      world_.KillPs(ps);
    } else if (what < 18) {
      Count();
      world_.KillChief();
      alive_ = rolling_ = false;
    } else if (what < 20 && !world_.workers[static_cast<size_t>(worker)].out.empty()) {
      // A doubled message.
      auto& out = world_.workers[static_cast<size_t>(worker)].out;
      out.push_back(out.front());
    } else if (what < 30 && world_.core().view().served()) {
      (void)world_.core().StartCut(false);
    }
  }

  // The job runner.
  void Client() {
    if (!alive_ || world_.core().view().phase() != CoordinatorCore::Phase::kReady) return;
    CoordinatorCore& core = world_.core();
    (void)core.TakeError();
    if (!core.view().served()) {
      if (core.view().all_ps_there() && world_.rollbacks_done.size() == rollbacks_seen_) {
        if (!rolling_) {
          rolling_ = true;
          world_.Serve();
        }
      } else if (world_.rollbacks_done.size() != rollbacks_seen_) {
        rollbacks_seen_ = world_.rollbacks_done.size();
        rolling_ = false;
      }
      if (!core.view().all_ps_there()) rolling_ = false;
      return;
    }
    rolling_ = false;
    rollbacks_seen_ = world_.rollbacks_done.size();
    if (Pick(50) == 0)
      (void)core.SetLearningRate(1.0 / static_cast<double>(1 + Pick(9)), Pick(2) == 0);
    const auto open = core.view().Unfinished();
    if (!open.empty()) {
      (void)world_.ScheduleJob(open[0].place, open[0].steps, kPlaces);
    } else if (core.view().scheduler.next_place() < kPlaces &&
               core.view().closures.queue().queued() < 6) {
      const uint64_t place = core.view().scheduler.next_place();
      (void)world_.ScheduleJob(place, static_cast<uint32_t>(std::min<uint64_t>(2, kPlaces - place)),
                               kPlaces);
    }
  }

  TestWorld world_;
  Seen seen_;
  bool alive_ = false;
  bool rolling_ = false;
  size_t rollbacks_seen_ = 0;
};

// All of it, as text that can be compared.
std::string TextOf(const absl::StatusOr<Recovered>& recovered) {
  if (!recovered.ok()) return recovered.status().ToString();
  const Recovered& r = *recovered;
  std::string text = fmt::format(
      "timeline {} from '{}', next record {}, ids {} {} {}, attempt {}, place {}, epoch {}, cut "
      "{}, "
      "layout {}, finished {}, steps {}, from manifest {};",
      r.timeline, r.began_from, r.next_record, r.reserved_end, r.watermark, r.rolled_back_end,
      r.min_attempt, r.next_place, r.epoch, r.next_cut, r.layout_hash, r.finished, r.steps,
      r.from_manifest);
  for (const UnfinishedClosure& c : r.unfinished) {
    text += fmt::format(" {}@{}+{}", c.id, c.place, c.steps);
  }
  for (const auto& [name, m] : r.metrics)
    text += fmt::format(" {}={}/{}", name, m.Scalar(kTotal), m.Scalar(kCount));
  ReaderPositions::Protos readers;
  r.readers.Fill(&readers);
  for (const v1::ReaderPositions& reader : readers) text += " " + reader.ShortDebugString();
  text += "; " + r.rates.ShortDebugString();
  return text;
}

// Recovery from each base and the records after it equals recovery from all records, whether the
// journal ends at the end or in between. Returns how many bases there are.
size_t CheckBases(const TestWorld& world) {
  const ManifestReader read = [&](const std::string& path) { return world.ManifestOf(path); };
  const std::vector<v1::JournalRecord>& all = world.durable;
  const std::string expected = TextOf(Recover(all, read, world.newest));
  JournalState whole(read);
  size_t bases = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    REQUIRE(whole.Apply(all[i]).ok());
    const auto base = whole.Base();
    if (!base.has_value()) continue;
    ++bases;
    INFO("base of record " << all[i].number());
    REQUIRE(base->number() == all[i].number());
    std::vector<v1::JournalRecord> rest = {*base};
    REQUIRE(TextOf(Recover(rest, read)) == TextOf(whole.Recover("")));
    rest.insert(rest.end(), all.begin() + static_cast<int64_t>(i) + 1, all.end());
    REQUIRE(TextOf(Recover(rest, read, world.newest)) == expected);
    // A base that was made from a base is the same.
    JournalState again(read);
    REQUIRE(again.Apply(*base).ok());
    REQUIRE(again.Base()->SerializeAsString() == base->SerializeAsString());
  }
  return bases;
}

TEST_CASE("recovery from any base equals recovery from all records, whatever has happened") {
  size_t bases = 0;
  for (uint64_t seed = 1001; seed <= 1040; ++seed) {
    INFO("seed " << seed);
    RandomRun run(seed);
    RandomRun::Seen seen;
    run.Run(&seen);
    bases += CheckBases(run.world());
  }
  CHECK(bases > 40 * 30);
}

TEST_CASE("random schedules of losses and deaths leave each place applied once") {
  const char* const wanted = std::getenv("COHORT_SEED");
  const uint64_t first = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 1;
  const uint64_t last = wanted != nullptr ? first : 300;
  RandomRun::Seen seen;
  for (uint64_t seed = first; seed <= last; ++seed) {
    INFO("seed " << seed << ": run again with COHORT_SEED=" << seed);
    RandomRun(seed).Run(&seen);
  }
  INFO(seen.lives << " lives, " << seen.rollbacks << " rollbacks, " << seen.requeued
                  << " closures run again, " << seen.cuts << " cuts, " << seen.late
                  << " late results");
  if (wanted == nullptr) {
    CHECK(seen.lives > last + 100);
    CHECK(seen.rollbacks > 100);
    CHECK(seen.requeued > 300);
    CHECK(seen.cuts > 100);
    CHECK(seen.late > 30);
  }
}

}  // namespace
}  // namespace cohort
