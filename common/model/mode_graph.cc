#include "common/model/mode_graph.h"

#include <map>
#include <utility>

namespace cohort {
namespace {

class ModeGraph {
 public:
  ModeGraph(const LayerGraph& graph, bool training) : graph_(graph), training_(training) {}

  LayerGraph Make() {
    FindNeeded();
    LayerGraph made{graph_.model_name, graph_.sequential, {}, {}};
    places_.assign(graph_.layers.size(), -1);
    for (size_t i = 0; i < graph_.layers.size(); ++i) {
      if (!needed_[i]) continue;
      places_[i] = static_cast<int>(made.layers.size());
      made.layers.push_back(Copy(i));
    }
    for (GraphOutput output : graph_.outputs) {
      output.layer = PlaceOf(output.layer);
      made.outputs.push_back(std::move(output));
    }
    return made;
  }

 private:
  // The layer whose value this one has.
  size_t Chosen(int layer) const {
    auto at = static_cast<size_t>(layer);
    while (graph_.layers[at].layer_class->schema.name == kInTraining) {
      at = static_cast<size_t>(graph_.layers[at].inputs[training_ ? 0 : 1]);
    }
    return at;
  }

  int PlaceOf(int layer) const { return places_[Chosen(layer)]; }

  void FindNeeded() {
    needed_.assign(graph_.layers.size(), false);
    for (const GraphOutput& output : graph_.outputs) needed_[Chosen(output.layer)] = true;
    for (size_t i = graph_.layers.size(); i-- > 0;) {
      if (graph_.layers[i].feature >= 0) needed_[i] = true;
      if (!needed_[i]) continue;
      for (const int input : graph_.layers[i].inputs) needed_[Chosen(input)] = true;
    }
  }

  GraphLayer Copy(size_t index) {
    GraphLayer layer = graph_.layers[index];
    for (int& input : layer.inputs) input = PlaceOf(input);
    const size_t first = graph_.FirstCall(index);
    const auto [known, is_first] = calls_.emplace(first, places_[index]);
    layer.shares = is_first ? -1 : known->second;
    if (is_first) layer.name = graph_.layers[first].name;
    return layer;
  }

  const LayerGraph& graph_;
  const bool training_;
  std::vector<bool> needed_;
  std::vector<int> places_;      // in the new graph; -1: left out
  std::map<size_t, int> calls_;  // by the first call in `graph_`: that in the new graph
};

}  // namespace

LayerGraph GraphOfMode(const LayerGraph& graph, bool training) {
  return ModeGraph(graph, training).Make();
}

}  // namespace cohort
