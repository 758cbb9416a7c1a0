// RNN and StackedRNNCells (keras/src/layers/rnn/rnn.py, stacked_rnn_cells.py).
#include "common/model/layers/layer_names.h"
#include "common/model/layers/recurrence.h"

namespace cohort {
namespace {

// Makes a cell from an argument that is one.
absl::StatusOr<std::unique_ptr<Cell>> MakeNestedCell(const LayerContext& context,
                                                     const v1::ClassConfig& config,
                                                     int64_t features) {
  COHORT_ASSIGN_OR_RETURN(const CellClass* cell, Cells().Find(config.class_name()));
  return cell->make(context, features);
}

// Each cell has the output of the one before as its input.
class StackedCells : public Cell {
 public:
  static absl::StatusOr<std::unique_ptr<Cell>> Make(const LayerContext& context, int64_t features) {
    auto stack = std::make_unique<StackedCells>();
    LayerNames names;
    for (const v1::ClassConfig& config : context.config.ObjectList("cells")) {
      const std::string own = names.Next(config.class_name());
      const bool named = Config(config).Has("name");
      stack->contexts_.push_back(
          std::make_unique<NestedContext>(context, config, named ? NestedName(config) : own));
      COHORT_ASSIGN_OR_RETURN(std::unique_ptr<Cell> cell,
                              MakeNestedCell(stack->contexts_.back()->context, config, features));
      features = cell->output_shape().back();
      stack->cells_.push_back(std::move(cell));
    }
    if (stack->cells_.empty()) return InvalidArgument("cells must be one or more");
    return stack;
  }

  std::vector<Dims> state_shapes() const override {
    std::vector<Dims> shapes;
    for (const auto& cell : cells_) {
      for (Dims& shape : cell->state_shapes()) shapes.push_back(std::move(shape));
    }
    return shapes;
  }
  Dims output_shape() const override { return cells_.back()->output_shape(); }

  absl::StatusOr<Expr> Project(Expr x) override { return cells_[0]->Project(x); }

  absl::StatusOr<Expr> Step(Expr projected, std::span<Expr> states) override {
    Expr y;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (i > 0) {
        if (!y.valid()) return y;
        const int64_t features = y.type().dims[1].size;
        COHORT_ASSIGN_OR_RETURN(const Expr all, cells_[i]->Project(Reshape(y, {-1, 1, features})));
        if (!all.valid()) return all;
        projected = Reshape(all, {-1, all.type().dims[2].size});
      }
      const size_t count = cells_[i]->state_shapes().size();
      COHORT_ASSIGN_OR_RETURN(y, cells_[i]->Step(projected, states.first(count)));
      states = states.subspan(count);
    }
    return y;
  }

  bool has_op() const override {
    return std::all_of(cells_.begin(), cells_.end(),
                       [](const auto& cell) { return cell->has_op(); });
  }
  absl::StatusOr<CellSteps> AllSteps(Expr projected, const RecurrenceOptions& options) override {
    CellSteps all;
    std::span<const Expr> first = options.states;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (i > 0) {
        COHORT_ASSIGN_OR_RETURN(projected, cells_[i]->Project(all.y));
      }
      RecurrenceOptions own = options;
      if (!first.empty()) {
        const size_t count = cells_[i]->state_shapes().size();
        own.states.assign(first.begin(), first.begin() + static_cast<ptrdiff_t>(count));
        first = first.subspan(count);
      }
      COHORT_ASSIGN_OR_RETURN(CellSteps steps, cells_[i]->AllSteps(projected, own));
      all.y = steps.y;
      all.states.insert(all.states.end(), steps.states.begin(), steps.states.end());
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<NestedContext>> contexts_;
  std::vector<std::unique_ptr<Cell>> cells_;
};

// The cell of an RNN, with the context that it refers to.
class CellOfRnn : public Cell {
 public:
  static absl::StatusOr<std::unique_ptr<Cell>> Make(const LayerContext& context, int64_t features) {
    auto made = std::make_unique<CellOfRnn>();
    const v1::ClassConfig& config = context.config.Object("cell");
    made->context_ = std::make_unique<NestedContext>(context, config, NestedName(config));
    COHORT_ASSIGN_OR_RETURN(made->cell_, MakeNestedCell(made->context_->context, config, features));
    return made;
  }

  std::vector<Dims> state_shapes() const override { return cell_->state_shapes(); }
  Dims output_shape() const override { return cell_->output_shape(); }
  absl::StatusOr<Expr> Project(Expr x) override { return cell_->Project(x); }
  absl::StatusOr<Expr> Step(Expr projected, std::span<Expr> states) override {
    return cell_->Step(projected, states);
  }
  bool has_op() const override { return cell_->has_op(); }
  absl::StatusOr<CellSteps> AllSteps(Expr projected, const RecurrenceOptions& options) override {
    return cell_->AllSteps(projected, options);
  }

 private:
  std::unique_ptr<NestedContext> context_;
  std::unique_ptr<Cell> cell_;
};

}  // namespace

CellClass StackedRnnCells() {
  return {
      NestedSchema("StackedRNNCells", "Cells, each of which takes the output of the one before.",
                   {ObjectList("cells", CellSchemas, "The cells.")}),
      StackedCells::Make};
}

RecurrentClass RnnClass() {
  return {NestedSchema("RNN", "Runs a cell through the steps of [batch, steps, features].",
                       WithRecurrentArguments({Object("cell", CellSchemas, "The cell.")})),
          CellOfRnn::Make};
}

LayerClass RNNLayer() { return RecurrentLayer(RnnClass()); }

}  // namespace cohort
