#ifndef COHORT_COMMON_GRAPH_EXPR_H_
#define COHORT_COMMON_GRAPH_EXPR_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/graph/program_builder.h"

namespace cohort {

// The ops as C++ expressions over Expr: one function per op of the registry (ARCHITECTURE.md has
// the table). Binary ones broadcast as NumPy does; a number becomes a scalar of the other side's
// dtype.

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator-(Expr x);
Expr operator+(Expr a, double b);
Expr operator-(Expr a, double b);
Expr operator*(Expr a, double b);
Expr operator/(Expr a, double b);
Expr operator+(double a, Expr b);
Expr operator-(double a, Expr b);
Expr operator*(double a, Expr b);
Expr operator/(double a, Expr b);

Expr Maximum(Expr a, Expr b);
Expr Minimum(Expr a, Expr b);
Expr Greater(Expr a, Expr b);  // bool
Expr Less(Expr a, Expr b);     // bool
Expr Equal(Expr a, Expr b);    // bool
Expr LogicalAnd(Expr a, Expr b);
Expr Select(Expr condition, Expr a, Expr b);

Expr Exp(Expr x);
Expr Log(Expr x);
Expr Sqrt(Expr x);
Expr Square(Expr x);
Expr Abs(Expr x);
Expr Floor(Expr x);  // no gradient flows through it
Expr Relu(Expr x);
Expr Sigmoid(Expr x);
Expr Tanh(Expr x);
Expr Erf(Expr x);
Expr Softplus(Expr x);    // log(1 + exp(x))
Expr Softmax(Expr x);     // over the last axis
Expr LogSoftmax(Expr x);  // over the last axis
Expr Sparsemax(Expr x);   // over the last axis
Expr Clip(Expr x, double min, double max);
// grad where y > 0, and where min <= x <= max; else 0. All have one type.
Expr ReluGrad(Expr grad, Expr y);
Expr ClipGrad(Expr grad, Expr x, double min, double max);
Expr Cast(Expr x, DType dtype);  // x itself if it has that dtype
Expr ArgMax(Expr x);             // int64, the last axis dropped

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
Expr ReduceMax(Expr x, std::vector<int64_t> axes, bool keepdims = false);
Expr ReduceMean(Expr x, std::vector<int64_t> axes, bool keepdims = false);
Expr BroadcastLike(Expr x, Expr like);
// The run-time count of an axis as a scalar of a floating dtype (kInvalid: x's own, which must
// float).
Expr DimSize(Expr x, int64_t axis, DType dtype = DType::kInvalid);
// The product of the run-time counts of all axes.
Expr NumElements(Expr x, DType dtype = DType::kInvalid);
// Sums a gradient of a broadcast operand back to that operand's type.
Expr SumTo(Expr grad, const ValueType& type);

// keys[U] (int64, no key twice) and, for each id, the position of its key.
std::pair<Expr, Expr> Unique(Expr ids);
// rows[index]: [index dims..., row dims...].
Expr Gather(Expr rows, Expr index);
// Sums of `grad`'s rows by index: the gradient of Gather with respect to `rows`.
Expr GatherGrad(Expr grad, Expr index, Expr rows);

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

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_EXPR_H_
