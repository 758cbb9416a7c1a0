#include "common/model/row_keys.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>

#include "common/base/printable.h"
#include "common/data/list_padding.h"
#include "common/graph/expr.h"
#include "common/tensor/table_rows.h"

namespace cohort {
bool TakesLists(const LayerClass& layer_class) {
  return layer_class.takes_keys && layer_class.schema.Find("padding") != nullptr;
}

namespace {

// Layers whose output has the numbers of their inputs, in the dtype of these.
bool MovesNumbers(const GraphLayer& layer) {
  constexpr std::string_view kMovers[] = {"Concatenate", "Flatten",      "Identity",
                                          "Permute",     "RepeatVector", "Reshape"};
  return std::find(std::begin(kMovers), std::end(kMovers), layer.layer_class->schema.name) !=
         std::end(kMovers);
}

int64_t RowsOf(const GraphLayer& layer) {
  return layer.layer_class->unbounded ? kTableRows : Config(layer.config).Int("input_dim");
}

absl::StatusOr<Expr> IdsOf(const LayerGraph& graph, size_t call,
                           std::span<const LayerOutput> outputs,
                           const std::vector<bool>& weighted) {
  const auto input = static_cast<size_t>(graph.layers[call].inputs[0]);
  // BuildOrder puts ids before the layers that take them, unless they depend on such a layer.
  if (outputs[input].value.valid() && !weighted[input]) {
    const Expr ids = Cast(outputs[input].value, DType::kInt64);
    const LayerClass& layer_class = *graph.layers[call].layer_class;
    return layer_class.unbounded ? TableRow(ids, TakesLists(layer_class)) : ids;
  }
  return InvalidArgument(
      "its ids come from layer \"{}\", which depends on weights; they must come from the data",
      graph.layers[input].name);
}

}  // namespace

std::vector<const GraphLayer*> ReadersOfIds(const LayerGraph& graph) {
  std::vector<const GraphLayer*> readers(graph.layers.size());
  for (size_t i = graph.layers.size(); i-- > 0;) {
    const GraphLayer& layer = graph.layers[i];
    const GraphLayer* reader = layer.layer_class->takes_keys ? &layer : nullptr;
    if (reader == nullptr && MovesNumbers(layer)) reader = readers[i];
    if (reader == nullptr) continue;
    // Other inputs of a layer that takes keys are weights.
    const size_t count = layer.layer_class->takes_keys ? 1 : layer.inputs.size();
    for (size_t k = 0; k < count; ++k) {
      const GraphLayer*& known = readers[static_cast<size_t>(layer.inputs[k])];
      if (known == nullptr || RowsOf(*reader) < RowsOf(*known)) known = reader;
    }
  }
  return readers;
}

absl::StatusOr<std::optional<int64_t>> PaddingOfIds(const LayerGraph& graph, size_t call) {
  if (!TakesLists(*graph.layers[call].layer_class)) return std::nullopt;
  const Config config(graph.layers[call].config);
  const bool given = !config.IsNone("padding");
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (graph.FirstCall(i) != graph.FirstCall(call)) continue;
    const GraphLayer& ids = graph.layers[static_cast<size_t>(graph.layers[i].inputs[0])];
    if (ids.feature < 0 || !Config(ids.config).Bool("ragged")) continue;
    if (!given) return kNoId;
    return InvalidArgument(
        "`padding` is for lists of one length, and \"{}\" is ragged: leave it out",
        PrintableLine(ids.name));
  }
  return given ? std::optional(config.Int("padding")) : std::nullopt;
}

std::vector<size_t> RowKeys::BuildOrder() const {
  const size_t count = graph_.layers.size();
  std::vector<bool> first(count, false);
  for (const GraphLayer& layer : graph_.layers) {
    if (layer.shares < 0 || !layer.layer_class->takes_keys) continue;
    first[static_cast<size_t>(layer.inputs[0])] = true;
    const GraphLayer& shared = graph_.layers[static_cast<size_t>(layer.shares)];
    first[static_cast<size_t>(shared.inputs[0])] = true;
  }
  for (size_t i = count; i-- > 0;) {
    if (!first[i]) continue;
    for (int input : graph_.layers[i].inputs) first[static_cast<size_t>(input)] = true;
  }
  std::vector<size_t> order;
  for (const bool wanted : {true, false}) {
    for (size_t i = 0; i < count; ++i) {
      if (first[i] == wanted) order.push_back(i);
    }
  }
  return order;
}

absl::Status RowKeys::Set(size_t layer, std::span<const LayerOutput> outputs,
                          const std::vector<bool>& weighted, LayerContext* context) {
  const size_t first = graph_.FirstCall(layer);
  if (!made_.contains(first)) COHORT_RETURN_IF_ERROR(Make(first, outputs, weighted));
  const Keys& made = made_[first];
  context->keys = made.keys;
  context->places = made.places.at(layer);
  return absl::OkStatus();
}

absl::Status RowKeys::Make(size_t first, std::span<const LayerOutput> outputs,
                           const std::vector<bool>& weighted) {
  std::vector<size_t> calls;
  std::vector<Expr> ids;
  for (size_t i = first; i < graph_.layers.size(); ++i) {
    if (graph_.FirstCall(i) != first) continue;
    COHORT_ASSIGN_OR_RETURN(ids.emplace_back(), IdsOf(graph_, i, outputs, weighted));
    calls.push_back(i);
  }
  COHORT_ASSIGN_OR_RETURN(std::optional<int64_t> padding, PaddingOfIds(graph_, first));
  if (graph_.layers[first].layer_class->unbounded && padding.has_value() &&
      *padding != kNoTableKey) {
    padding = RowOfKey(*padding);
  }
  Keys& made = made_[first];
  if (calls.size() == 1) {
    std::tie(made.keys, made.places[first]) = Unique(ids[0], padding);
    return absl::OkStatus();
  }
  // The ids of a record side by side.
  std::vector<Expr> flat;
  for (const Expr& x : ids) flat.push_back(Reshape(x, {-1, ElementsPerRecord(x.type())}));
  Expr places;
  std::tie(made.keys, places) = Unique(Concat(flat, 1), padding);
  int64_t begin = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const int64_t size = ElementsPerRecord(ids[i].type());
    made.places[calls[i]] = Reshape(Slice(places, 1, begin, size), ReshapeDims(ids[i].type().dims));
    begin += size;
  }
  return absl::OkStatus();
}

}  // namespace cohort
