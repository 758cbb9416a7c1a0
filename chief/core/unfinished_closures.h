#ifndef COHORT_CHIEF_CORE_UNFINISHED_CLOSURES_H_
#define COHORT_CHIEF_CORE_UNFINISHED_CLOSURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "chief/core/core_types.h"

namespace cohort {

// The closures of the job runner that have an id and are not scheduled. The client has not
// scheduled them in this incarnation of the chief, or not since an error or a rollback. Workers may
// still hold them and may finish them:
//
//   Add ──► unfinished ──────────────(1) Take──────────────► scheduled again
//              │  ▲ Hold, Release: which worker holds it            ▲
//              └──┴──(2) OnResult──► finished early ──(3) TakeEarly─┘
//
// (1) It keeps its id; a worker that holds it continues it. (2) It ends, and its result waits.
// (3) Its place is scheduled: the result is used, and nothing runs.
//
// A place has one closure at most.
class UnfinishedClosures {
 public:
  struct Entry {
    UnfinishedClosure closure;
    uint32_t attempt = 0;       // the last attempt that was dispatched
    uint32_t min_attempt = 1;   // results of older attempts belong to an older timeline
    int holder = -1;            // the worker that holds it; -1: none
    uint32_t held_attempt = 0;  // the attempt that the holder has
    bool begun = true;          // a worker may have begun it
  };
  // What a result means for the closure. kUnknown: the closure is not here, or its attempt does not
  // count.
  enum class Outcome : uint8_t { kUnknown, kFailed, kFinished };

  void Add(const Entry& entry);
  void Clear();

  bool empty() const { return by_place_.empty(); }
  // Returns all closures, by place.
  std::vector<UnfinishedClosure> List() const;
  // Returns the closure of this place; null if there is none.
  const Entry* Find(uint64_t place) const;
  // True if this place has a closure here, or a result that waits.
  bool Knows(uint64_t place) const { return by_place_.contains(place) || early_.contains(place); }
  // Returns the place of the closure if it is one of these.
  std::optional<uint64_t> PlaceOf(uint64_t id) const;
  // Sync mode, after a restart: the servers have closed the steps of all places before `end`.
  // Results of later places, which an earlier chief dispatched, do not count.
  void RefuseResultsFrom(uint64_t end);
  // No worker has begun those of places from `begin` on: their ids were only reserved.
  void NoteNotBegunFrom(uint64_t begin);
  bool any_begun() const;
  // The first place of one; UINT64_MAX: there is none.
  uint64_t first_place() const { return by_place_.empty() ? UINT64_MAX : by_place_.begin()->first; }
  // Edge (1): removes the closure of this place and returns it.
  std::optional<Entry> Take(uint64_t place);

  // Notes that a worker holds the closure. Returns false if there is no such closure, or this
  // attempt does not count.
  bool Hold(uint64_t id, int worker, uint32_t attempt);
  // Notes that a worker holds none of them.
  void Release(int worker);
  // Returns the ids of the closures that a worker holds.
  std::vector<uint64_t> HeldBy(int worker) const;
  // True if any worker holds one.
  bool held() const;

  // Takes edge (2) if it returns kFinished: it keeps the result.
  Outcome OnResult(const v1::ClosureResult& result);
  // Edge (3).
  std::optional<v1::ClosureResult> TakeEarly(uint64_t place);

 private:
  // Returns null if there is no such closure, or this attempt does not count.
  Entry* FindWanted(uint64_t id, uint32_t attempt);

  std::map<uint64_t, Entry> by_place_;
  std::map<uint64_t, uint64_t> places_;          // by id
  std::map<uint64_t, v1::ClosureResult> early_;  // by place
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_UNFINISHED_CLOSURES_H_
