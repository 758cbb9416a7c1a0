#include "common/model/einsum.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

// A value whose axes have labels. The axes of an ellipsis have labels below ' ', counted from the
// last one.
struct Labeled {
  Expr value;
  std::string labels;
};

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// "a...b" for a value of `rank` axes.
absl::StatusOr<std::string> ExpandEllipsis(std::string_view term, size_t rank) {
  const size_t dots = term.find("...");
  std::string labels(term.substr(0, dots));
  if (dots != std::string_view::npos) {
    const size_t named = term.size() - 3;
    if (named > rank || rank - named >= ' ') {
      return InvalidArgument("\"{}\" names more axes than the {} of its operand", term, rank);
    }
    for (size_t i = rank - named; i-- > 0;) labels.push_back(static_cast<char>(i + 1));
    labels += term.substr(dots + 3);
  }
  if (labels.size() != rank) {
    return InvalidArgument("\"{}\" names {} axes, and its operand has {}", term, labels.size(),
                           rank);
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels.find(labels[i], i + 1) == std::string::npos) continue;
    return InvalidArgument("\"{}\" names an axis of one operand twice, which is not supported",
                           term);
  }
  return labels;
}

// Axes of 1 move without a copy.
Labeled Ordered(const Labeled& x, const std::string& order) {
  if (x.labels == order || !x.value.valid()) return {x.value, order};
  const std::vector<Dim> dims = x.value.type().dims;
  std::vector<int64_t> perm, sizes;
  size_t last = 0;
  bool copies = false;
  for (const char label : order) {
    const size_t axis = x.labels.find(label);
    perm.push_back(static_cast<int64_t>(axis));
    sizes.push_back(dims[axis].bounded() ? -1 : dims[axis].size);
    if (dims[axis] == Dim{1, 0}) continue;
    copies = copies || axis < last;
    last = axis;
  }
  if (copies) return {Transpose(x.value, std::move(perm)), order};
  return {Reshape(x.value, std::move(sizes)), order};
}

// Sums over the axes that are not wanted.
Labeled SumOut(const Labeled& x, const std::string& wanted) {
  std::vector<int64_t> axes;
  std::string kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (Has(wanted, x.labels[i])) {
      kept.push_back(x.labels[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  return axes.empty() ? x : Labeled{ReduceSum(x.value, std::move(axes)), kept};
}

using SizeOfLabel = std::map<char, Dim>;

// The axes of these labels as one, which is bounded if the first one is.
int64_t Joined(const std::string& labels, const SizeOfLabel& sizes) {
  int64_t size = 1;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Dim dim = sizes.at(labels[i]);
    if (i == 0 && dim.bounded()) size = -1;
    if (size > 0) size *= dim.size;
  }
  return size;
}

void AddDims(const std::string& labels, const SizeOfLabel& sizes, std::vector<int64_t>* dims) {
  for (const char label : labels) {
    dims->push_back(sizes.at(label).bounded() ? -1 : sizes.at(label).size);
  }
}

// True if an operand with these labels is multiplied as both + summed + own instead of both + own +
// summed: then it is copied less, or row by row.
bool SummedFirst(const std::string& labels, const std::string& both, const std::string& own,
                 const std::string& summed) {
  if (own.empty() || summed.empty() || labels == both + own + summed) return false;
  return labels == both + summed + own || labels.back() == own.back();
}

// The product of two values, summed over the labels that `wanted` lacks.
absl::StatusOr<Labeled> Product(Labeled a, Labeled b, const std::string& wanted,
                                const SizeOfLabel& sizes) {
  a = SumOut(a, wanted + b.labels);
  b = SumOut(b, wanted + a.labels);
  // An axis with the size of the batch comes first: only there a reshape takes it.
  std::string both, summed, left, right;
  for (const char label : a.labels) {
    std::string& group = !Has(b.labels, label) ? left : Has(wanted, label) ? both : summed;
    group.insert(sizes.at(label).bounded() ? 0 : group.size(), 1, label);
  }
  for (const char label : b.labels) {
    if (Has(a.labels, label)) continue;
    right.insert(sizes.at(label).bounded() ? 0 : right.size(), 1, label);
  }
  if (!right.empty() && both.empty() && sizes.at(right[0]).bounded()) {
    std::swap(a, b);
    std::swap(left, right);
  }
  const int64_t m = Joined(left, sizes), k = Joined(summed, sizes), n = Joined(right, sizes);
  // Only the first axis of a matrix may have the size of the batch.
  const bool ta = m >= 0 && SummedFirst(a.labels, both, left, summed);
  const bool tb = !SummedFirst(b.labels, both, right, summed);
  a = Ordered(a, both + (ta ? summed + left : left + summed));
  b = Ordered(b, both + (tb ? right + summed : summed + right));
  if (!a.value.valid() || !b.value.valid()) return Labeled{};
  Labeled y{{}, both + left + right};
  std::vector<int64_t> dims;
  AddDims(y.labels, sizes, &dims);
  if (k < 0 || n < 0 || (m < 0 && !both.empty())) {
    return InvalidArgument("it sums over the batch, or multiplies batches with each other");
  }
  if (both.empty()) {
    y.value = MatMul(Reshape(a.value, ta ? Dims{k, m} : Dims{m, k}),
                     Reshape(b.value, tb ? Dims{n, k} : Dims{k, n}), ta, tb);
  } else {
    const int64_t count = Joined(both, sizes);
    y.value = BatchMatMul(Reshape(a.value, ta ? Dims{count, k, m} : Dims{count, m, k}),
                          Reshape(b.value, tb ? Dims{count, n, k} : Dims{count, k, n}), ta, tb);
  }
  y.value = Reshape(y.value, std::move(dims));
  return y;
}

// The labels of the output if the notation has none: those of one operand alone, in the order of
// the alphabet, after those of an ellipsis.
std::string ImplicitOutput(const std::vector<Labeled>& operands) {
  std::map<char, int> counts;
  for (const Labeled& x : operands) {
    for (const char label : x.labels) ++counts[label];
  }
  std::string ellipsis, named;
  for (const auto& [label, count] : counts) {
    if (label < ' ') ellipsis.insert(ellipsis.begin(), label);
    if (label >= ' ' && count == 1) named.push_back(label);
  }
  return ellipsis + named;
}

}  // namespace

absl::StatusOr<Expr> Einsum(std::string_view subscripts, std::span<const Expr> operands) {
  std::string text(subscripts);
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string inputs = text.substr(0, arrow);
  std::vector<Labeled> values;
  SizeOfLabel sizes;
  std::string ellipsis;  // that of the operand with the most axes
  size_t begin = 0;
  for (const Expr& operand : operands) {
    if (!operand.valid()) return Expr();
    if (begin > inputs.size()) break;
    const size_t end = std::min(inputs.find(',', begin), inputs.size());
    const std::string_view term = std::string_view(inputs).substr(begin, end - begin);
    begin = end + 1;
    const ValueType type = operand.type();
    COHORT_ASSIGN_OR_RETURN(std::string labels, ExpandEllipsis(term, type.dims.size()));
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto [it, is_new] = sizes.emplace(labels[i], type.dims[i]);
      if (!is_new && it->second != type.dims[i]) {
        return InvalidArgument("\"{}\": two axes with one name have the sizes {} and {}",
                               subscripts, it->second.size, type.dims[i].size);
      }
    }
    std::string own;
    std::ranges::copy_if(labels, std::back_inserter(own), [](char label) { return label < ' '; });
    if (own.size() > ellipsis.size()) ellipsis = own;
    values.push_back({operand, std::move(labels)});
  }
  if (values.size() != operands.size() || begin != inputs.size() + 1) {
    return InvalidArgument("\"{}\" is not for {} operands", subscripts, operands.size());
  }
  std::string output = ImplicitOutput(values);
  if (arrow != std::string::npos) {
    output = text.substr(arrow + 2);
    if (const size_t dots = output.find("..."); dots != std::string::npos) {
      output.replace(dots, 3, ellipsis);
    }
    for (const char label : output) {
      if (sizes.contains(label)) continue;
      return InvalidArgument("\"{}\": no operand has the axis {} of the result", subscripts, label);
    }
  }
  Labeled result = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    std::string wanted = output;
    for (size_t j = i + 1; j < values.size(); ++j) wanted += values[j].labels;
    COHORT_ASSIGN_OR_RETURN(result, Product(std::move(result), values[i], wanted, sizes));
    if (!result.value.valid()) return Expr();
  }
  result = SumOut(result, output);
  if (result.labels.size() != output.size()) {
    return InvalidArgument("\"{}\" names an axis of the result twice", subscripts);
  }
  return Ordered(result, output).value;
}

absl::StatusOr<Expr> MatMulOfAnyRank(Expr a, Expr b) {
  if (!a.valid() || !b.valid()) return Expr();
  const Expr both[] = {a, b};
  if (a.rank() == 1 && b.rank() == 1) return Einsum("k,k->", both);
  if (b.rank() == 1) return Einsum("...k,k->...", both);
  if (a.rank() == 1) return Einsum("k,...kn->...n", both);
  return Einsum("...mk,...kn->...mn", both);
}

}  // namespace cohort
