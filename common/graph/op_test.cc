#include <catch2/catch.hpp>
#include <set>

#include "common/graph/expr.h"
#include "common/graph/graph_test_util.h"
#include "common/graph/op_registry.h"

namespace cohort {
namespace {

constexpr DType kI = DType::kInt64;

// A program with a batch of at most 32 and inputs of every kind that the cases below use.
struct Fixture {
  ProgramBuilder b{"test"};
  int batch = b.AddSymbol("batch", 32);
  Dim n{32, batch};
  Expr x = b.Input("x", {kF, {n, {6}}});            // float32[batch, 6]
  Expr v = b.Input("v", {kF, {n}});                 // float32[batch]
  Expr row = b.Input("row", {kF, {{1}, {6}}});      // float32[1, 6]
  Expr ids = b.Input("ids", {kI, {n, {3}}});        // int64[batch, 3]
  Expr labels = b.Input("labels", {kI, {n}});       // int64[batch]
  Expr w = b.Read("w", {kF, {{6}, {4}}});           // float32[6, 4]
  Expr d = b.Input("d", {DType::kFloat64, {{2}}});  // float64[2]

  Expr Steps() { return Reshape(x, {-1, 3, 2}); }  // float32[batch, 3, 2]
  // Attributes of a pooling op with strides of 1.
  static Attrs Pool(std::vector<int64_t> window) {
    return {{"window", std::move(window)},
            {"strides", std::vector<int64_t>{1}},
            {"padding", std::string("valid")}};
  }

  std::string Type(Expr e) {
    return e.valid() ? TypeToString(e.type()) : std::string(b.status().message());
  }
};

TEST_CASE("every op is registered once, with a type inference") {
  std::set<std::string_view> names;
  for (const OpSchema& op : AllOps()) {
    INFO(op.name);
    CHECK(names.insert(op.name).second);
    CHECK(op.infer != nullptr);
    CHECK(FindOp(op.name) == &op);
    CHECK(op.min_inputs <= op.max_inputs);
  }
  CHECK(std::ranges::is_sorted(AllOps(), {}, &OpSchema::name));
  CHECK(names.size() == 90);
  CHECK(FindOp("no_such_op") == nullptr);
  CHECK(FindOp("") == nullptr);
}

TEST_CASE("shapes of elementwise ops broadcast as NumPy's") {
  Fixture f;
  CHECK(f.Type(f.x + f.row) == "float32[batch<=32, 6]");
  CHECK(f.Type(f.row * f.x) == "float32[batch<=32, 6]");
  CHECK(f.Type(f.x / 2.0) == "float32[batch<=32, 6]");
  CHECK(f.Type(1.0 - f.v) == "float32[batch<=32]");
  CHECK(f.Type(Maximum(f.x, Reshape(f.v, {-1, 1}))) == "float32[batch<=32, 6]");
  CHECK(f.Type(Minimum(f.row, f.x)) == "float32[batch<=32, 6]");
  CHECK(f.Type(Greater(f.x, f.row)) == "bool[batch<=32, 6]");
  CHECK(f.Type(LogicalAnd(Less(f.x, f.row), Equal(f.row, f.row))) == "bool[batch<=32, 6]");
  CHECK(f.Type(LogicalOr(LogicalNot(Less(f.x, f.row)), GreaterEqual(f.row, f.row))) ==
        "bool[batch<=32, 6]");
  CHECK(f.Type(Pow(f.x, f.row)) == "float32[batch<=32, 6]");
  CHECK(f.Type(Pow(f.d, 2)) == "float64[2]");
  CHECK(f.Type(Equal(f.ids, f.ids)) == "bool[batch<=32, 3]");
  CHECK(f.Type(Select(Greater(f.x, f.row), f.row, f.x)) == "float32[batch<=32, 6]");
  CHECK(f.Type(-Relu(Sigmoid(Tanh(Floor(f.x))))) == "float32[batch<=32, 6]");
  CHECK(f.Type(Clip(f.d, 0, 1)) == "float64[2]");
  CHECK(f.Type(Cast(Equal(f.ids, f.ids), DType::kFloat64)) == "float64[batch<=32, 3]");
  CHECK(Cast(f.x, kF).id() == f.x.id());
  CHECK(f.b.status().ok());
}

TEST_CASE("shapes of products, moves and reductions") {
  Fixture f;
  CHECK(f.Type(MatMul(f.x, f.w)) == "float32[batch<=32, 4]");
  CHECK(f.Type(MatMul(f.x, f.x, true)) == "float32[6, 6]");
  CHECK(f.Type(MatMul(f.w, f.x, true, true)) == "float32[4, batch<=32]");
  CHECK(f.Type(Reshape(f.x, {-1, 2, 3})) == "float32[batch<=32, 2, 3]");
  CHECK(f.Type(Reshape(f.x, {-1})) == "float32[batch<=192]");
  CHECK(f.Type(Reshape(Reshape(f.x, {-1, 2}), {-1, 6})) == "float32[batch<=32, 6]");
  CHECK(f.Type(Reshape(f.w, {24})) == "float32[24]");
  const std::vector<Expr> parts = {f.x, Slice(f.x, 1, 2, 3)};
  CHECK(f.Type(Concat(parts, -1)) == "float32[batch<=32, 9]");
  CHECK(f.Type(Transpose(f.x, {1, 0})) == "float32[6, batch<=32]");
  CHECK(f.Type(ReduceSum(f.x)) == "float32[]");
  CHECK(f.Type(ReduceSum(f.x, {-1})) == "float32[batch<=32]");
  CHECK(f.Type(ReduceMax(f.x, {0}, true)) == "float32[1, 6]");
  CHECK(f.Type(ReduceMean(f.x, {0, 1})) == "float32[]");
  CHECK(f.Type(BroadcastLike(f.row, f.x)) == "float32[batch<=32, 6]");
  CHECK(f.Type(DimSize(f.ids, 0, kF)) == "float32[]");
  CHECK(f.Type(NumElements(f.x)) == "float32[]");
  CHECK(f.Type(ArgMax(f.x)) == "int64[batch<=32]");
  CHECK(f.b.status().ok());
}

TEST_CASE("shapes of lookups, losses and dropout") {
  Fixture f;
  const auto [keys, inverse] = Unique(f.ids);
  CHECK(f.Type(keys) == "int64[s2<=96]");
  CHECK(f.Type(inverse) == "int64[batch<=32, 3]");
  const Expr rows = f.b.ReadRows("table", {kF, {{1000}, {8}}}, keys);
  CHECK(f.Type(rows) == "float32[s2<=96, 8]");
  const Expr y = Gather(rows, inverse);
  CHECK(f.Type(y) == "float32[batch<=32, 3, 8]");
  CHECK(f.Type(GatherGrad(y, inverse, rows)) == "float32[s2<=96, 8]");
  CHECK(f.Type(Softmax(f.x)) == "float32[batch<=32, 6]");
  CHECK(f.Type(SigmoidCrossEntropy(f.x, f.x)) == "float32[batch<=32, 6]");
  CHECK(f.Type(SparseSoftmaxCrossEntropy(f.labels, f.x)) == "float32[batch<=32]");
  CHECK(f.Type(InTopK(f.labels, f.x, 5)) == "bool[batch<=32]");
  const auto [dropped, mask] = Dropout(f.x, 0.5, 1);
  CHECK(f.Type(dropped) == "float32[batch<=32, 6]");
  CHECK(f.Type(mask) == "float32[batch<=32, 6]");
  CHECK(f.b.status().ok());
}

TEST_CASE("pooling counts windows as TensorFlow does") {
  struct Case {
    int64_t steps, pool_size, strides;
    const char* padding;
    int64_t windows;
  };
  const Case cases[] = {{5, 2, 2, "valid", 2}, {5, 2, 2, "same", 3},  {5, 2, 1, "valid", 4},
                        {5, 2, 1, "same", 5},  {6, 3, 3, "valid", 2}, {6, 1, 4, "valid", 2},
                        {6, 1, 4, "same", 2},  {3, 7, 2, "same", 2},  {3, 3, 9, "valid", 1},
                        {1, 1, 1, "valid", 1}, {1, 4, 3, "same", 1},  {10, 4, 3, "same", 4}};
  for (const Case& c : cases) {
    Fixture f;
    INFO(c.steps << " steps, " << c.pool_size << " by " << c.strides << ", " << c.padding);
    const Expr x = f.b.Input("steps", {kF, {f.n, {c.steps}, {4}}});
    CHECK(f.Type(MaxPool(x, {c.pool_size}, {c.strides}, c.padding)) ==
          "float32[batch<=32, " + std::to_string(c.windows) + ", 4]");
  }
}

TEST_CASE("SumTo undoes broadcasting") {
  Fixture f;
  CHECK(f.Type(SumTo(f.x, f.row.type())) == "float32[1, 6]");
  CHECK(f.Type(SumTo(f.x, {kF, {{6}}})) == "float32[6]");
  CHECK(f.Type(SumTo(f.x, {kF, {}})) == "float32[]");
  CHECK(f.Type(SumTo(f.x, {kF, {f.n, {1}}})) == "float32[batch<=32, 1]");
  CHECK(SumTo(f.x, f.x.type()).id() == f.x.id());
}

TEST_CASE("what does not fit is refused, saying what and where") {
  struct Case {
    const char* message;
    Expr (*make)(Fixture&);
  };
  const Case cases[] = {
      {"op 'add': float32[batch<=32, 6] and float32[6, 4] do not broadcast",
       [](Fixture& f) { return f.x + f.w; }},
      {"op 'add': inputs 0 and 1 have different dtypes: float32[batch<=32, 6] and float64[2]",
       [](Fixture& f) { return f.x + f.d; }},
      {"op 'mul': input 0 must be float32 or float64, not int64[batch<=32, 3]",
       [](Fixture& f) { return f.ids * f.ids; }},
      {"op 'matmul': inner axes differ: float32[batch<=32, 6] times float32[6, 4] transposed",
       [](Fixture& f) { return MatMul(f.x, f.w, false, true); }},
      {"op 'matmul': input 0 must have 2 axes, not float32[batch<=32]",
       [](Fixture& f) { return MatMul(f.v, f.w); }},
      {"op 'reshape': float32[batch<=32, 6] has no whole number of rows of [5]",
       [](Fixture& f) {
         return Reshape(f.x, {-1, 5});
       }},
      {"op 'reshape': float32[batch<=32, 6] has no whole number of rows of [12]",
       [](Fixture& f) {
         return Reshape(f.x, {-1, 12});
       }},
      {"op 'reshape': dims must have -1 at axis 0 exactly where axis 0 of float32[batch<=32, 6] is "
       "bounded",
       [](Fixture& f) {
         return Reshape(f.x, {32, 6});
       }},
      {"op 'reshape': dims [0] has a size that is out of range at axis 0",
       [](Fixture& f) { return Reshape(f.w, {0}); }},
      {"op 'reshape': dims [4294967296, 4294967296] has a size that is out of range at axis 1",
       [](Fixture& f) {
         return Reshape(f.w, {int64_t{1} << 32, int64_t{1} << 32});
       }},
      {"op 'slice': [4, 4 + 3) does not lie in axis 1 of float32[batch<=32, 6]",
       [](Fixture& f) { return Slice(f.x, 1, 4, 3); }},
      {"op 'slice': axis 0 of float32[batch<=32, 6] is bounded",
       [](Fixture& f) { return Slice(f.x, 0, 0, 3); }},
      {"op 'transpose': perm [0, 0] is no permutation of the axes of float32[batch<=32, 6]",
       [](Fixture& f) {
         return Transpose(f.x, {0, 0});
       }},
      {"op 'reduce_sum': axis 2 is not one of float32[batch<=32, 6]",
       [](Fixture& f) { return ReduceSum(f.x, {2}); }},
      {"op 'reduce_sum': axes [1, 1] must ascend",
       [](Fixture& f) {
         return ReduceSum(f.x, {1, -1});
       }},
      {"op 'gather': input 1 must be int64, not float32[batch<=32]",
       [](Fixture& f) { return Gather(f.w, f.v); }},
      {"op 'sparse_softmax_cross_entropy': input 0 must have 1 axes, not int64[batch<=32, 3]",
       [](Fixture& f) { return SparseSoftmaxCrossEntropy(f.ids, f.x); }},
      {"op 'sigmoid_cross_entropy': labels and logits must have one type, not float32[1, 6] and "
       "float32[batch<=32, 6]",
       [](Fixture& f) { return SigmoidCrossEntropy(f.row, f.x); }},
      {"op 'dropout': rate 1 does not lie in [0, 1)",
       [](Fixture& f) { return Dropout(f.x, 1, 0).first; }},
      {"op 'clip': min 1 is not <= max 0", [](Fixture& f) { return Clip(f.x, 1, 0); }},
      {"op 'softmax': input 0 must have a static last axis, not float32[batch<=32]",
       [](Fixture& f) { return Softmax(f.v); }},
      {"op 'in_top_k': input 0 must be int64, not float32[batch<=32]",
       [](Fixture& f) { return InTopK(f.v, f.x, 1); }},
      {"op 'in_top_k': inputs 0 and 1 have different numbers of rows: int64[batch<=32] and "
       "float32[6, 4]",
       [](Fixture& f) { return InTopK(f.labels, f.w, 1); }},
      {"op 'in_top_k': k must be 1 or more, not 0",
       [](Fixture& f) { return InTopK(f.labels, f.x, 0); }},
      {"op 'logical_and': input 0 must be bool, not float32[batch<=32, 6]",
       [](Fixture& f) { return LogicalAnd(f.x, f.x); }},
      {"op 'logical_not': input 0 must be bool, not float32[batch<=32, 6]",
       [](Fixture& f) { return LogicalNot(f.x); }},
      {"op 'max_pool': input 0 must have 3 or 4 axes, not float32[batch<=32, 6]",
       [](Fixture& f) { return MaxPool(f.x, {2}, {2}, "valid"); }},
      {"op 'max_pool': input 0 must be float32 or float64, not int64[batch<=32, 3]",
       [](Fixture& f) { return MaxPool(f.ids, {2}, {2}, "valid"); }},
      {"op 'max_pool': padding must be \"valid\" or \"same\", not \"causal\"",
       [](Fixture& f) { return MaxPool(f.Steps(), {2}, {2}, "causal"); }},
      {"op 'max_pool': window [0] must have a size of 1 or more for each pooled axis",
       [](Fixture& f) { return MaxPool(f.Steps(), {0}, {2}, "same"); }},
      {"op 'max_pool': strides [-1] must have a size of 1 or more for each pooled axis",
       [](Fixture& f) { return MaxPool(f.Steps(), {2}, {-1}, "same"); }},
      {"op 'max_pool': a window of 4 does not fit into 3 elements; use a smaller one, or padding "
       "\"same\"",
       [](Fixture& f) { return MaxPool(f.Steps(), {4}, {1}, "valid"); }},
      {"op 'max_pool': axis 1 of float32[2, batch<=32, 3] is bounded, and pooling needs a static "
       "one",
       [](Fixture& f) {
         return MaxPool(f.b.Input("t", {kF, {{2}, f.n, {3}}}), {2}, {2}, "valid");
       }},
      {"op 'max_pool': window [2, 2] must have one size, because one axis of "
       "float32[batch<=32, 3, 2] is pooled",
       [](Fixture& f) {
         return f.b.Op("max_pool", {f.Steps()}, f.Pool({2, 2}));
       }},
      {"op 'max_pool': input 1 must have the type of input 0, float32[batch<=32, 3, 2], not "
       "float32[batch<=32, 6]",
       [](Fixture& f) {
         return f.b.Op("max_pool", {f.Steps(), f.x}, f.Pool({2}));
       }},
      {"op 'max_pool_grad': input 0 is float32[batch<=32, 3, 2], but pooling input 1 makes "
       "float32[batch<=32, 2, 2]",
       [](Fixture& f) {
         return f.b.Op("max_pool_grad", {f.Steps(), f.Steps()}, f.Pool({2}));
       }},
      {"there is no op 'frobnicate'", [](Fixture& f) { return f.b.Op("frobnicate", {f.x}); }},
      {"op 'relu' has no attribute 'slope'",
       [](Fixture& f) {
         return f.b.Op("relu", {f.x}, {{"slope", 0.1}});
       }},
      {"op 'clip' lacks its attribute 'max'",
       [](Fixture& f) {
         return f.b.Op("clip", {f.x}, {{"min", 0.1}});
       }},
      {"attribute 'min' of op 'clip' must be a float, not an integer",
       [](Fixture& f) {
         return f.b.Op("clip", {f.x}, {{"min", int64_t{0}}, {"max", 1.0}});
       }},
      {"op 'add' takes 2 inputs, not 1", [](Fixture& f) { return f.b.Op("add", {f.x}); }},
      {"an input of op 'add' is not a value", [](Fixture& f) { return f.x + Expr(); }},
  };
  for (const Case& c : cases) {
    Fixture f;
    INFO(c.message);
    CHECK_FALSE(c.make(f).valid());
    CHECK(std::string(f.b.status().message()) == c.message);
  }
}

}  // namespace
}  // namespace cohort
