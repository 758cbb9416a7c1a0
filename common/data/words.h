#ifndef COHORT_COMMON_DATA_WORDS_H_
#define COHORT_COMMON_DATA_WORDS_H_

#include <absl/status/statusor.h>

#include <span>

#include "common/data/table.h"

namespace cohort {

// Columns of words, which become numbers before records are read.

// Returns a column with the number of each word, stored as `stored`. If each word has several, the
// caller sets the shape.
Column MapWords(const Column& column, std::span<const double> number_of_word, DType stored,
                DType dtype);

// Returns a column of words as it is, and one of integers in memory as their decimal text.
Column WordsOf(const Column& column);

// Returns a column in memory with these numbers, stored as `dtype`.
Column NumbersColumn(std::span<const double> numbers, Dims dims, DType dtype);

// Returns a column of numbers as it is, and parses the words of another: they become int64 if all
// are integers. Errors: InvalidArgument (a word is not a number).
absl::StatusOr<Column> NumbersOf(const Column& column);

// Stacks columns of words along a new last axis: the result has the shape `dims`. Their words are
// in one dictionary, so that they have one vocabulary.
Column StackWords(std::span<const Column> parts, Dims dims);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_WORDS_H_
