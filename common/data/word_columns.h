#ifndef COHORT_COMMON_DATA_WORD_COLUMNS_H_
#define COHORT_COMMON_DATA_WORD_COLUMNS_H_

#include <absl/status/status.h>

#include "common/data/record_source.h"
#include "common/data/table.h"

namespace cohort {

// Adds the columns of words of a source to the table. It reads the words of records `rows` that
// `use` names, for all such columns at once, and keeps the codes and the distinct words. The
// others, and RecordSource::no_features, become columns that are no features. Errors: those of
// ReadWords, with the record.
absl::Status AddWordColumns(const RecordSource& source, const RowRange& rows, const ColumnUse& use,
                            Table* table);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_WORD_COLUMNS_H_
