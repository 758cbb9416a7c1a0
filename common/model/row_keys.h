#ifndef COHORT_COMMON_MODEL_ROW_KEYS_H_
#define COHORT_COMMON_MODEL_ROW_KEYS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/model/layer_graph.h"

namespace cohort {

// Returns, by layer, the layer that reads its value as ids (LayerClass::takes_keys), if necessary
// through layers that only move numbers; of several, that with the shortest table. Null: none.
std::vector<const GraphLayer*> ReadersOfIds(const LayerGraph& graph);

// True for a layer that reads lists of ids, which may have different lengths: EmbeddingBag and its
// like.
bool TakesLists(const LayerClass& layer_class);
// The ids that count as none for the calls of an EmbeddingBag: what stands behind ragged lists, or
// its `padding`; nothing: all ids count. Error: InvalidArgument if `padding` is given for ragged
// lists.
absl::StatusOr<std::optional<int64_t>> PaddingOfIds(const LayerGraph& graph, size_t call);

// The keys of layers that read rows of a table (LayerClass::takes_keys) in one program. A step
// pulls the rows of a table once. So the keys of a layer are those of all of its calls, and they
// are made with the first call.
class RowKeys {
 public:
  explicit RowKeys(const LayerGraph* graph) : graph_(*graph) {}

  // The order in which layers are made: what leads to the keys of a shared layer comes first.
  std::vector<size_t> BuildOrder() const;

  // Sets `keys` and `places` for the call `layer`. `outputs` are those of the layers that are made,
  // and `weighted` tells which of them depend on variables. Errors: InvalidArgument if ids depend
  // on variables, because a step must know its keys before it pulls anything.
  absl::Status Set(size_t layer, std::span<const LayerOutput> outputs,
                   const std::vector<bool>& weighted, LayerContext* context);

 private:
  struct Keys {
    Expr keys;
    std::map<size_t, Expr> places;  // by call
  };
  absl::Status Make(size_t first, std::span<const LayerOutput> outputs,
                    const std::vector<bool>& weighted);

  const LayerGraph& graph_;
  std::map<size_t, Keys> made_;  // by the first call
};

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_ROW_KEYS_H_
