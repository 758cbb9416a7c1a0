#ifndef COHORT_CHIEF_CORE_UNFINISHED_CLOSURES_H_
#define COHORT_CHIEF_CORE_UNFINISHED_CLOSURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "chief/core/core_types.h"

namespace cohort {

// The closures of the job runner that have an id and that nobody has scheduled (yet) in this life,
// after an error, or after a rollback. Workers may still have them in hand, and may finish them:
//
//   Add ──► unfinished ──────────────(1) Take──────────────► scheduled again
//              │  ▲ Hold, Release: who has it in hand               ▲
//              └──┴──(2) OnResult──► finished early ──(3) TakeEarly─┘
//
// (1) under its id; a worker that has it in hand goes on with it. (2) it ends, and its result waits
// for (3), the Schedule of its place, which has nothing to run any more.
//
// A place has one closure at most.
class UnfinishedClosures {
 public:
  struct Entry {
    UnfinishedClosure closure;
    uint32_t attempt = 0;       // the last one that was given out
    uint32_t min_attempt = 1;   // results of older ones belong to an older timeline
    int holder = -1;            // the worker that has it in hand,
    uint32_t held_attempt = 0;  // under this attempt
  };
  // What a result says about one of them.
  enum class Told : uint8_t { kNothing, kFailed, kFinished };

  void Add(const Entry& entry);
  void Clear();

  // By place.
  std::vector<UnfinishedClosure> List() const;
  // The one of this place; null where there is none.
  const Entry* Find(uint64_t place) const;
  // Whether there is one of this place, or its result waits.
  bool Knows(uint64_t place) const { return by_place_.contains(place) || early_.contains(place); }
  // Where the closure lies, if it is one of these.
  std::optional<uint64_t> PlaceOf(uint64_t id) const;
  // Edge (1): as Find, and it is unfinished no more.
  std::optional<Entry> Take(uint64_t place);

  // A worker has it in hand. False where there is no such closure, or its attempt is not wanted.
  bool Hold(uint64_t id, int worker, uint32_t attempt);
  // A worker has nothing in hand any more.
  void Release(int worker);
  // The ids of those that a worker has in hand.
  std::vector<uint64_t> HeldBy(int worker) const;
  // Whether any worker has one.
  bool held() const;

  // Edge (2) where it tells kFinished: the result is kept. kNothing: not one of these, or an
  // attempt that is not wanted.
  Told OnResult(const v1::ClosureResult& result);
  // Edge (3).
  std::optional<v1::ClosureResult> TakeEarly(uint64_t place);

 private:
  // Null where there is none, or this attempt of it is not wanted.
  Entry* Wanted(uint64_t id, uint32_t attempt);

  std::map<uint64_t, Entry> by_place_;
  std::map<uint64_t, uint64_t> places_;          // by id
  std::map<uint64_t, v1::ClosureResult> early_;  // by place
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_UNFINISHED_CLOSURES_H_
