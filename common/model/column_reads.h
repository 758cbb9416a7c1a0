#ifndef COHORT_COMMON_MODEL_COLUMN_READS_H_
#define COHORT_COMMON_MODEL_COLUMN_READS_H_

namespace cohort {

namespace v1 {
class JobSpec;
}

// Sets `reads` of the datasets: what the layers and losses of the model need of the numbers of its
// columns. Ids of an Embedding, class numbers, and Inputs of an integer dtype are integers; in a
// float64 model the other columns are float64. Leaves `reads` empty if the model cannot be
// connected, which BuildModel explains.
void SetColumnReads(v1::JobSpec* job);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_COLUMN_READS_H_
