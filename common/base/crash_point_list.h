#ifndef COHORT_COMMON_BASE_CRASH_POINT_LIST_H_
#define COHORT_COMMON_BASE_CRASH_POINT_LIST_H_

#include <array>
#include <string_view>

namespace cohort {

// Every place in the code where a test may end the process, named role.what.when and used as
// COHORT_CRASH_POINT("name"). A name that is missing here does not compile. tests/lint fails for a
// name that is listed here and used nowhere.
inline constexpr std::string_view kCrashPoints[] = {
    "chief.closures.reserved",        // the journal holds a block of ids; none is used yet
    "chief.cut.manifest_writing",     // the disk thread is about to commit it
    "chief.cut.manifest_written",     // committed; no task knows it yet
    "chief.cut.shards_written",       // all shard files exist, the manifest does not
    "chief.cut.snapshotted",          // every ps has its snapshot; nothing is on disk
    "chief.former.moving",            // before each move of a checkpoint of the former job
    "chief.fresh.deleting",           // --fresh: before each deletion
    "chief.homes.journaled",          // tablets have other servers; none knows
    "chief.journal.segment_durable",  // a new segment is synced; the old one has its name
    "chief.journal.segment_started",  // it has the name; older generations are not deleted
    "chief.journal.segment_written",  // a new segment is written and not synced
    "chief.journal.writing",          // only the journal thread has the records
    "chief.rate.journaled",           // the learning rate is durable; no ps has it
    "chief.result.folded",            // the metrics are folded in memory only
    "chief.rollback.journaled",       // the new timeline is durable; no ps knows
    "chief.settle.journaled",         // durable; the watermark is not published
    "chief.step.closed",              // all servers have closed the step; no result is folded
    "chief.step.closing",             // CloseStep is sent to every server
    "ps.pull.answering",              // values are gathered; the answer is not sent
    "ps.push.applied",                // applied to a tablet; the answer is not sent
    "ps.push.partial",                // one section is applied, the next one is not
    "ps.push.received",               // not applied
    "ps.push.staged",                 // the push of a synchronous step is staged, not answered
    "ps.restore.done",                // shards are read from a cut; they are not served yet
    "ps.snapshot.taken",              // in memory
    "ps.snapshot.writing",            // a shard file is incomplete
    "ps.snapshot.written",            // a shard file is complete; the chief does not know
    "ps.step.closed",                 // all tablets have closed the step; the chief does not know
    "ps.step.closing",                // CloseStep is here, no tablet has closed the step
    "ps.step.partial",                // one tablet has closed the step, the next one has not
    "replica.own_push.made",          // the own part has the push; other parts may lack theirs
    "replica.ring.chunk_added",       // a partial sum is here; the next rank does not have it
    "replica.ring.chunk_summed",      // a chunk of the own part is complete; others may not be
    "replica.ring.entered",           // the group is complete; no bucket has left
    "replica.ring.entering",          // the other ranks wait for this one
    "replica.ring.failed",            // another rank is lost; the closure is not given back
    "replica.ring.partial",           // one bucket has left, the next one has not
    "replica.ring.summed",            // all sums of the own part are here; no push has them
    "worker.closure.received",        // accepted; nothing is pulled
    "worker.pull.done",               // all values of a step are here; it does not run yet
    "worker.push.sent",               // sent to some server; no answer has arrived
    "worker.result.made",             // all pushes are acknowledged; the result is not sent
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_CRASH_POINT_LIST_H_
