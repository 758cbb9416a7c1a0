#ifndef COHORT_COMMON_GRAPH_EXPR_H_
#define COHORT_COMMON_GRAPH_EXPR_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/graph/program_builder.h"

namespace cohort {

// The ops as C++ expressions over Expr: one function per op of the registry (docs/ops.md has
// the table). Binary ones broadcast as NumPy does; a number becomes a scalar of the other side's
// dtype.

// Traces an op with one output, with the builder of the first valid input. Without a valid input
// the result is no value.
Expr Trace(std::string_view op, std::initializer_list<Expr> inputs, Attrs attrs = {});

inline Expr operator+(Expr a, Expr b) { return Trace("add", {a, b}); }
inline Expr operator-(Expr a, Expr b) { return Trace("sub", {a, b}); }
inline Expr operator*(Expr a, Expr b) { return Trace("mul", {a, b}); }
inline Expr operator/(Expr a, Expr b) { return Trace("div", {a, b}); }
inline Expr operator-(Expr x) { return Trace("neg", {x}); }
Expr operator+(Expr a, double b);
Expr operator-(Expr a, double b);
Expr operator*(Expr a, double b);
Expr operator/(Expr a, double b);
Expr operator+(double a, Expr b);
Expr operator-(double a, Expr b);
Expr operator*(double a, Expr b);
Expr operator/(double a, Expr b);

inline Expr Maximum(Expr a, Expr b) { return Trace("maximum", {a, b}); }
inline Expr Minimum(Expr a, Expr b) { return Trace("minimum", {a, b}); }
inline Expr Pow(Expr a, Expr b) { return Trace("pow", {a, b}); }
Expr Pow(Expr a, double b);
inline Expr Greater(Expr a, Expr b) { return Trace("greater", {a, b}); }             // bool
Expr Less(Expr a, Expr b);                                                           // bool
inline Expr Equal(Expr a, Expr b) { return Trace("equal", {a, b}); }                 // bool
inline Expr GreaterEqual(Expr a, Expr b) { return Trace("greater_equal", {a, b}); }  // bool
inline Expr LogicalAnd(Expr a, Expr b) { return Trace("logical_and", {a, b}); }
inline Expr LogicalOr(Expr a, Expr b) { return Trace("logical_or", {a, b}); }
inline Expr LogicalNot(Expr x) { return Trace("logical_not", {x}); }
inline Expr Select(Expr condition, Expr a, Expr b) { return Trace("select", {condition, a, b}); }

inline Expr Exp(Expr x) { return Trace("exp", {x}); }
inline Expr Log(Expr x) { return Trace("log", {x}); }
inline Expr Sqrt(Expr x) { return Trace("sqrt", {x}); }
inline Expr Square(Expr x) { return Trace("square", {x}); }
inline Expr Abs(Expr x) { return Trace("abs", {x}); }
inline Expr Log1p(Expr x) { return Trace("log1p", {x}); }  // log(1 + x)
inline Expr Expm1(Expr x) { return Trace("expm1", {x}); }  // exp(x) - 1
inline Expr Rsqrt(Expr x) { return Trace("rsqrt", {x}); }  // 1 / sqrt(x)
inline Expr Sin(Expr x) { return Trace("sin", {x}); }
inline Expr Cos(Expr x) { return Trace("cos", {x}); }
inline Expr Atan(Expr x) { return Trace("atan", {x}); }
// No gradient flows through these five.
inline Expr Floor(Expr x) { return Trace("floor", {x}); }
inline Expr Round(Expr x) { return Trace("round", {x}); }  // halfway: to the even number
// The nearest value of bfloat16, in the dtype of x.
inline Expr RoundToBfloat16(Expr x) { return Trace("round_to_bfloat16", {x}); }
inline Expr Sign(Expr x) { return Trace("sign", {x}); }
inline Expr StopGradient(Expr x) { return Trace("stop_gradient", {x}); }  // x
inline Expr Relu(Expr x) { return Trace("relu", {x}); }
inline Expr Sigmoid(Expr x) { return Trace("sigmoid", {x}); }
inline Expr Tanh(Expr x) { return Trace("tanh", {x}); }
inline Expr Erf(Expr x) { return Trace("erf", {x}); }
inline Expr Softplus(Expr x) { return Trace("softplus", {x}); }       // log(1 + exp(x))
inline Expr Softmax(Expr x) { return Trace("softmax", {x}); }         // over the last axis
inline Expr LogSoftmax(Expr x) { return Trace("log_softmax", {x}); }  // over the last axis
inline Expr Sparsemax(Expr x) { return Trace("sparsemax", {x}); }     // over the last axis
Expr Clip(Expr x, double min, double max);
// grad where y > 0, and where min <= x <= max; else 0. All have one type.
inline Expr ReluGrad(Expr grad, Expr y) { return Trace("relu_grad", {grad, y}); }
Expr ClipGrad(Expr grad, Expr x, double min, double max);
Expr Cast(Expr x, DType dtype);                              // x itself if it has that dtype
inline Expr ArgMax(Expr x) { return Trace("argmax", {x}); }  // int64, the last axis dropped

// [m,k] x [k,n] -> [m,n], each side transposed first where asked.
Expr MatMul(Expr a, Expr b, bool transpose_a = false, bool transpose_b = false);
// [n,m,k] x [n,k,p] -> [n,m,p], in the same way.
Expr BatchMatMul(Expr a, Expr b, bool transpose_a = false, bool transpose_b = false);

// `dims` has -1 at axis 0 exactly where x has a bounded axis 0.
Expr Reshape(Expr x, std::vector<int64_t> dims);
// Negative axes count from the end.
Expr Concat(std::span<const Expr> xs, int64_t axis);
Expr Slice(Expr x, int64_t axis, int64_t begin, int64_t size);
Expr Transpose(Expr x, std::vector<int64_t> perm);
Expr ReduceSum(Expr x);  // over all axes
Expr ReduceSum(Expr x, std::vector<int64_t> axes, bool keepdims = false);
inline Expr SumSquares(Expr x) { return Trace("sum_squares", {x}); }  // over all axes, in float64
Expr ReduceMax(Expr x, std::vector<int64_t> axes, bool keepdims = false);
Expr ReduceMin(Expr x, std::vector<int64_t> axes, bool keepdims = false);
Expr ReduceProd(Expr x, std::vector<int64_t> axes, bool keepdims = false);
Expr ReduceMean(Expr x, std::vector<int64_t> axes, bool keepdims = false);
inline Expr BroadcastLike(Expr x, Expr like) { return Trace("broadcast_like", {x, like}); }
// The run-time count of an axis as a scalar of a floating dtype (kInvalid: x's own, which must
// float).
Expr DimSize(Expr x, int64_t axis, DType dtype = DType::kInvalid);
// The product of the run-time counts of all axes.
Expr NumElements(Expr x, DType dtype = DType::kInvalid);
// Sums a gradient of a broadcast operand back to that operand's type.
Expr SumTo(Expr grad, const ValueType& type);

// keys[U] (int64, no key twice) and, for each id, the position of its key. Ids that equal `padding`
// have no key, and the position -1.
std::pair<Expr, Expr> Unique(Expr ids, std::optional<int64_t> padding = std::nullopt);
// The rows of keys in a table without bounds (common/tensor/table_rows.h). `lists`: kNoTableKey is
// no key, and stays.
inline Expr TableRow(Expr keys, bool lists) {
  return Trace("table_row", {keys}, {{"lists", lists}});
}
// rows[index]: [index dims..., row dims...].
inline Expr Gather(Expr rows, Expr index) { return Trace("gather", {rows, index}); }
// Sums of `grad`'s rows by index: the gradient of Gather with respect to `rows`.
Expr GatherGrad(Expr grad, Expr index, Expr rows);
// index [n, length] -> [n, d]: the sum of the rows [U, d] that each list names, times its weights
// [n, length] if there are any. An index of -1 names none.
Expr Bag(Expr rows, Expr index, Expr weights = {});
// Its gradient with respect to `rows`.
Expr BagGrad(Expr grad, Expr index, Expr rows, Expr weights = {});

// The places of the elements along the last axis in ascending order, as int64. Equal elements keep
// their order, and NaN is the largest number.
Expr Argsort(Expr x, bool descending = false);
// x[..., n], index[..., k] -> [..., k]: the elements of the last axis at these places, and 0 for a
// place outside of it.
inline Expr GatherAlong(Expr x, Expr index) { return Trace("gather_along", {x, index}); }
// Sums of `grad` by index along the last axis, in the shape of x: the gradient of GatherAlong with
// respect to `x`.
Expr GatherAlongGrad(Expr grad, Expr index, Expr x);

// y and the mask that y is x times of (0, or 1 / (1 - rate)).
std::pair<Expr, Expr> Dropout(Expr x, double rate, int64_t seed);
// Numbers of the standard normal distribution, of the type of x.
Expr RandomNormalLike(Expr x, int64_t seed);
// Elementwise max(x, 0) - x * z + log(1 + exp(-|x|)) of logits x and labels z.
Expr SigmoidCrossEntropy(Expr labels, Expr logits);
// labels int64 [m], logits [m, n] -> [m].
Expr SparseSoftmaxCrossEntropy(Expr labels, Expr logits);
// targets int64 [m], predictions [m, n] -> bool [m]: fewer than k classes have a larger prediction
// than the target, so a tie with the k-th class is in. False if the target is no class or if a
// prediction is not finite, as tf.math.in_top_k.
Expr InTopK(Expr targets, Expr predictions, int64_t k);

// x [batch, rows..., channels] with one or two axes of rows -> [batch, windows..., channels]: the
// maximum, or the mean, of each window. `padding` is "valid" or "same", as in Keras; padding is no
// element. The first of equal maxima gets the gradient.
Expr MaxPool(Expr x, std::vector<int64_t> window, std::vector<int64_t> strides,
             std::string padding);
Expr AvgPool(Expr x, std::vector<int64_t> window, std::vector<int64_t> strides,
             std::string padding);

struct ConvOptions {
  std::array<int64_t, 2> strides = {1, 1};
  std::array<int64_t, 2> dilations = {1, 1};
  std::array<int64_t, 4> pads = {0, 0, 0, 0};  // top, bottom, left, right; zeros
  int64_t groups = 1;
};
// x [batch, rows, columns, c], kernel [taps, taps, c / groups, o] -> [batch, rows, columns, o].
Expr Conv2D(Expr x, Expr kernel, const ConvOptions& options);
// The gradient of Conv2D with respect to its input of `size` rows and columns, which is also the
// transposed convolution.
Expr Conv2DInputGrad(Expr grad, Expr kernel, std::array<int64_t, 2> size,
                     const ConvOptions& options);

// Normalizes x by its mean and biased variance over all axes but the last, then applies gamma[c]
// and beta[c].
struct BatchNormExprs {
  Expr y, mean, variance;
};
BatchNormExprs BatchNormTrain(Expr x, Expr gamma, Expr beta, double epsilon);

// Recurrences over the steps of x [n, steps, gates units], which is the product of a layer's input
// and kernel, with the bias; `kernel` is that of the states. -> the states h [n, steps, units].
struct RecurrenceOptions {
  Expr mask;                 // bool [n, steps]: where it is false, the state stays. Or no value
  bool backwards = false;    // from the last step to the first
  std::vector<Expr> states;  // before the first step, [n, units] each. None: zeros
};
// Gates in the order of Keras: input, forget, candidate, output.
struct LstmExprs {
  Expr h, c;  // the states and the cells of all steps
};
LstmExprs Lstm(Expr x, Expr kernel, const RecurrenceOptions& options);
// Update, reset, candidate; the reset gate applies to the product of the states, with its bias.
Expr Gru(Expr x, Expr kernel, Expr bias, const RecurrenceOptions& options);
Expr SimpleRnn(Expr x, Expr kernel, const RecurrenceOptions& options);

// A step that another process computes. The inputs are `columns` of records, then variables; result
// 0 of each record is the mean loss.
struct ExternalOptions {
  int64_t columns = 1;
  int64_t results = 1;
  std::string names;  // one for each input, as JSON
  bool training = false;
  int64_t seed = 0;
};
Expr External(std::span<const Expr> inputs, const ExternalOptions& options);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_EXPR_H_
