#include "common/model/planned_names.h"

#include <fmt/ranges.h>

#include "common/base/status.h"
#include "common/base/suggest.h"

namespace cohort {
namespace {

struct Names {
  std::string_view kind;
  std::string_view names;  // separated by spaces
};

// The most used classes of keras/src/{layers,activations,initializers,optimizers,losses,metrics},
// the modes of tf.distribute, and further keys of parameter server jobs.
constexpr Names kPlannedNames[] = {
    {"layer",
     "Add AdditiveAttention AlphaDropout Attention Average AveragePooling1D "
     "AveragePooling2D AveragePooling3D BatchNormalization Bidirectional "
     "CategoryEncoding Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D Cropping2D "
     "DepthwiseConv2D Discretization Dot ELU EinsumDense GRU GaussianNoise "
     "GlobalAveragePooling2D GlobalMaxPooling1D GlobalMaxPooling2D GroupNormalization "
     "Hashing IntegerLookup LSTM Lambda LayerNormalization LeakyReLU Masking "
     "MaxPooling1D MaxPooling2D MaxPooling3D Maximum Minimum MultiHeadAttention "
     "Multiply Normalization PReLU Permute ReLU RepeatVector SeparableConv2D SimpleRNN "
     "Softmax SpatialDropout1D Subtract TimeDistributed UnitNormalization UpSampling2D "
     "ZeroPadding2D"},
    {"activation",
     "elu exponential gelu hard_sigmoid leaky_relu log_softmax mish relu6 selu silu "
     "softplus softsign swish"},
    {"initializer",
     "GlorotNormal HeNormal HeUniform LecunNormal LecunUniform Orthogonal "
     "TruncatedNormal VarianceScaling glorot_normal he_normal he_uniform lecun_normal "
     "lecun_uniform orthogonal truncated_normal variance_scaling"},
    {"optimizer",
     "Adadelta Adafactor Adagrad AdamW Adamax Ftrl Lamb Lion Nadam adadelta adafactor "
     "adagrad adamw adamax ftrl lamb lion nadam"},
    {"loss",
     "CategoricalCrossentropy CosineSimilarity Hinge Huber KLDivergence LogCosh "
     "MeanAbsoluteError Poisson categorical_crossentropy cosine_similarity hinge huber "
     "kl_divergence log_cosh mae mean_absolute_error poisson squared_hinge"},
    {"metric",
     "AUC F1Score MeanAbsoluteError MeanSquaredError Precision Recall "
     "RootMeanSquaredError TopKCategoricalAccuracy auc categorical_accuracy mae "
     "mean_absolute_error mean_squared_error mse precision recall "
     "sparse_top_k_categorical_accuracy top_k_categorical_accuracy"},
    {"mode",
     "bounded_staleness central_storage collective mirrored multi_worker_mirrored "
     "one_device sync"},
    {"key",
     "activity_regularizer all_reduce bias_constraint bias_regularizer "
     "bounded_staleness callbacks class_weight clipnorm clipvalue closures_per_step "
     "collective collectives cuda deterministic device devices drop "
     "embeddings_constraint embeddings_regularizer export global_clipnorm gpu gpus "
     "hash_table incremental jit_compile kernel_constraint kernel_regularizer "
     "loss_weights mask_zero mixed_precision noise_shape replicas replicas_to_aggregate "
     "sample_weight save_best_only speculative tls trace weighted_metrics"},
};

}  // namespace

bool IsPlannedName(std::string_view kind, std::string_view name) {
  for (const Names& known : kPlannedNames) {
    if (known.kind != kind || name.empty() || name.find(' ') != name.npos) continue;
    return fmt::format(" {} ", known.names).find(fmt::format(" {} ", name)) != std::string::npos;
  }
  return false;
}

absl::Status NoSuchName(std::string_view kind, std::string_view name,
                        std::span<const std::string_view> known, std::string_view note) {
  const std::string there = fmt::format("{}{}", fmt::join(known, ", "), note);
  if (IsPlannedName(kind, name)) {
    return Unimplemented("{} \"{}\" is not supported yet; supported: {}", kind, name, there);
  }
  return InvalidArgument("there is no {} \"{}\" here; there are {}{}", kind, name.substr(0, 60),
                         there, DidYouMean(name, known));
}

}  // namespace cohort
