#ifndef COHORT_PS_SERVER_COPIES_STATE_PIECES_H_
#define COHORT_PS_SERVER_COPIES_STATE_PIECES_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/tablet/tablet.h"
#include "ps_server/copies/copy_log.h"

namespace cohort {

// Cuts the state of a tablet into the pieces that travel to a copy (v1.CopyState), each about as
// large as a block. It references the blocks, which do not change.
class StatePieces {
 public:
  // `close`: the newest that the primary has carried out; may be null.
  StatePieces(TabletSnapshot state, uint64_t open_step, uint64_t step_try,
              std::shared_ptr<const v1::CloseStep> close, BufferPool* pool)
      : state_(std::move(state)),
        open_step_(open_step),
        step_try_(step_try),
        close_(std::move(close)),
        pool_(pool) {}

  // The next piece, without its number; null behind the last one, which has the applied ids.
  std::shared_ptr<CopyLogEntry> Next();

 private:
  std::shared_ptr<CopyLogEntry> NextOfShard(const ShardSnapshot& shard);
  std::shared_ptr<CopyLogEntry> RowsOf(const ShardSnapshot& shard, const ShardBlock& block);
  std::shared_ptr<CopyLogEntry> CountsOf(const ShardSnapshot& shard, size_t part);

  const TabletSnapshot state_;
  const uint64_t open_step_;
  const uint64_t step_try_;
  const std::shared_ptr<const v1::CloseStep> close_;
  BufferPool* const pool_;
  // The place of the next piece.
  size_t shard_ = 0;
  size_t block_ = 0;  // a table has parts of the counts after its blocks
  int slot_ = -1;
  bool ended_ = false;
};

// Adds a piece to an empty tablet. `payload`: its fields, aligned to 8. Errors: DataLoss if it does
// not fit; those of Tablet::Restore.
absl::Status AddPiece(const v1::CopyState& piece, std::span<const std::span<const uint8_t>> payload,
                      Tablet* tablet);

}  // namespace cohort

#endif  // COHORT_PS_SERVER_COPIES_STATE_PIECES_H_
