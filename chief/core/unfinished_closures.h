#ifndef COHORT_CHIEF_CORE_UNFINISHED_CLOSURES_H_
#define COHORT_CHIEF_CORE_UNFINISHED_CLOSURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "chief/core/core_types.h"

namespace cohort {

// The closures of the job runner that have an id and are not scheduled: nobody has scheduled them
// in this life of the chief, or since an error or a rollback. Workers may still have them in hand,
// and may finish them:
//
//   Add ──► unfinished ──────────────(1) Take──────────────► scheduled again
//              │  ▲ Hold, Release: who has it in hand               ▲
//              └──┴──(2) OnResult──► finished early ──(3) TakeEarly─┘
//
// (1) It keeps its id; a worker that has it in hand continues it. (2) It ends, and its result waits
// for (3), the Schedule of its place, which then has nothing to run.
//
// A place has one closure at most.
class UnfinishedClosures {
 public:
  struct Entry {
    UnfinishedClosure closure;
    uint32_t attempt = 0;       // the last one that was dispatched
    uint32_t min_attempt = 1;   // results of older attempts belong to an older timeline
    int holder = -1;            // the worker that has it in hand; -1: none
    uint32_t held_attempt = 0;  // the attempt that the holder has
  };
  // What a result means for the closure. kUnknown: it is not one of these, or its attempt is not
  // wanted.
  enum class Outcome : uint8_t { kUnknown, kFailed, kFinished };

  void Add(const Entry& entry);
  void Clear();

  // All, by place.
  std::vector<UnfinishedClosure> List() const;
  // The closure of this place; null if there is none.
  const Entry* Find(uint64_t place) const;
  // True if this place has a closure here, or its result waits.
  bool Knows(uint64_t place) const { return by_place_.contains(place) || early_.contains(place); }
  // The place of the closure, if it is one of these.
  std::optional<uint64_t> PlaceOf(uint64_t id) const;
  // Edge (1): removes the closure of this place and returns it.
  std::optional<Entry> Take(uint64_t place);

  // Notes that a worker has the closure in hand. False if there is no such closure, or its attempt
  // is not wanted.
  bool Hold(uint64_t id, int worker, uint32_t attempt);
  // Notes that a worker has none of them in hand.
  void Release(int worker);
  // The ids of those that a worker has in hand.
  std::vector<uint64_t> HeldBy(int worker) const;
  // True if any worker has one in hand.
  bool held() const;

  // Edge (2) if it returns kFinished: the result is kept.
  Outcome OnResult(const v1::ClosureResult& result);
  // Edge (3).
  std::optional<v1::ClosureResult> TakeEarly(uint64_t place);

 private:
  // Null if there is no such closure, or this attempt of it is not wanted.
  Entry* FindWanted(uint64_t id, uint32_t attempt);

  std::map<uint64_t, Entry> by_place_;
  std::map<uint64_t, uint64_t> places_;          // by id
  std::map<uint64_t, v1::ClosureResult> early_;  // by place
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_UNFINISHED_CLOSURES_H_
