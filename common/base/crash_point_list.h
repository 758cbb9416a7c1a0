#ifndef COHORT_COMMON_BASE_CRASH_POINT_LIST_H_
#define COHORT_COMMON_BASE_CRASH_POINT_LIST_H_

#include <array>
#include <string_view>

namespace cohort {

// Every place in the code where a test may end the process, named role.what.when. Used as
// COHORT_CRASH_POINT("name"); a name that is not here does not compile, and tests/lint fails for a
// name that stands here and nowhere in the code.
inline constexpr std::string_view kCrashPoints[] = {
    "chief.closures.reserved",        // the journal holds a block of ids; none is used yet
    "chief.cut.manifest_writing",     // the disk's thread is about to commit it
    "chief.cut.manifest_written",     // committed; nobody has been told
    "chief.cut.shards_written",       // all shard files are there, the manifest is not
    "chief.cut.snapshotted",          // every ps has its snapshot; nothing is on disk
    "chief.fresh.deleting",           // --fresh: before each thing that goes
    "chief.journal.segment_durable",  // a new segment is synced; the old one has its name
    "chief.journal.segment_started",  // it has the name; older generations are not deleted
    "chief.journal.segment_written",  // a new segment is written and not synced
    "chief.journal.writing",          // records are in the hand of the journal's thread only
    "chief.result.folded",            // metrics are folded in memory only
    "chief.rollback.journaled",       // the new timeline is durable; no ps knows
    "chief.settle.journaled",         // durable; the watermark is not published
    "ps.push.applied",                // applied to a tablet; the answer is not sent
    "ps.push.partial",                // one section is applied, the next one is not
    "ps.push.received",               // not applied
    "ps.restore.done",                // shards are read from a cut; they are not served yet
    "ps.snapshot.taken",              // in memory
    "ps.snapshot.writing",            // a shard file is begun and not complete
    "ps.snapshot.written",            // a shard file is complete; the chief has not been told
    "worker.closure.received",        // in hand, nothing pulled
    "worker.push.sent",               // to some server; no answer seen
    "worker.result.made",             // all acknowledged; the result is not sent
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_CRASH_POINT_LIST_H_
