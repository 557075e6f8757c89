# SPDX-License-Identifier: Apache-2.0
"""The enums of the public API. Members are spelt as users know them.

``Non`` stands where ``None`` is meant, which Python reserves.
"""

from hugectr.base.named_enum import NamedEnum


class Error_t(NamedEnum):
    """Kinds of failure; kept for scripts that name them. Errors are raised as exceptions."""

    Success = 0
    FileCannotOpen = 1
    BrokenFile = 2
    OutOfMemory = 3
    OutOfBound = 4
    WrongInput = 5
    IllegalCall = 6
    NotInitialized = 7
    UnSupportedFormat = 8
    InvalidEnv = 9
    MpiError = 10
    CublasError = 11
    CudnnError = 12
    CudaError = 13
    NcclError = 14
    DataCheckError = 15
    UnspecificError = 16
    EndOfFile = 17


class Check_t(NamedEnum):
    """Whether the records of a Norm file carry a checksum."""

    Sum = 0
    Non = 1


class DataReaderSparse_t(NamedEnum):
    """How keys travel (v3.0); the embedding type decides it since."""

    Distributed = 0
    Localized = 1


class DataReaderType_t(NamedEnum):
    """File format of the samples."""

    Norm = 0
    Raw = 1
    Parquet = 2
    RawAsync = 3


class SourceType_t(NamedEnum):
    """What a reader's source names."""

    FileList = 0
    Mmap = 1
    Parquet = 2


class Embedding_t(NamedEnum):
    """How an embedding table is split over the devices."""

    DistributedSlotSparseEmbeddingHash = 0
    LocalizedSlotSparseEmbeddingHash = 1
    LocalizedSlotSparseEmbeddingOneHot = 2
    HybridSparseEmbedding = 3


class Initializer_t(NamedEnum):
    """Distribution of a parameter's first values."""

    Default = 0
    Uniform = 1
    XavierNorm = 2
    XavierUniform = 3
    Zero = 4


class Optimizer_t(NamedEnum):
    """Update rule; ``core/cpp/optimizers`` says all else of each."""

    Adam = 0
    AdaGrad = 1
    MomentumSGD = 2
    Nesterov = 3
    SGD = 4
    Ftrl = 5
    RowWiseAdaGrad = 6
    RMSProp = 7

    @property
    def hparam(self) -> str:
        """Key of its settings in a JSON config."""
        return _OPTIMIZER_HPARAM[self]


_OPTIMIZER_HPARAM = {
    Optimizer_t.Adam: "adam_hparam",
    Optimizer_t.AdaGrad: "adagrad_hparam",
    Optimizer_t.MomentumSGD: "momentum_sgd_hparam",
    Optimizer_t.Nesterov: "nesterov_hparam",
    Optimizer_t.SGD: "sgd_hparam",
    Optimizer_t.Ftrl: "ftrl_hparam",
    Optimizer_t.RowWiseAdaGrad: "row_wise_adagrad_hparam",
    Optimizer_t.RMSProp: "rmsprop_hparam",
}


class Update_t(NamedEnum):
    """Which rows of a table an optimizer step changes."""

    Local = 0
    Global = 1
    LazyGlobal = 2


class Activation_t(NamedEnum):
    """Activation of a FusedInnerProduct layer."""

    Relu = 0
    Non = 1


class FcPosition_t(NamedEnum):
    """Position of a FusedInnerProduct layer in its stack."""

    Non = 0
    Head = 1
    Body = 2
    Tail = 3
    Isolated = 4


class Regularizer_t(NamedEnum):
    """Penalty a loss layer puts on the dense weights."""

    L1 = 0
    L2 = 1


class Alignment_t(NamedEnum):
    """Padding of the dense input of the RawAsync reader."""

    Auto = 0
    Non = 1


class LrPolicy_t(NamedEnum):
    """Learning-rate policy; the schedule itself is set by warmup and decay arguments."""

    fixed = 0


class MetricsType(NamedEnum):
    """What an evaluation reports; ``core/cpp/metrics`` says all else of each."""

    AUC = 0
    AverageLoss = 1
    HitRate = 2
    NDCG = 3
    SMAPE = 4
    LogLoss = 5
    Calibration = 6
    GAUC = 7
    MSE = 8
    Accuracy = 9


class MetricsRawType(NamedEnum):
    """What a metric is computed from."""

    Loss = 0
    Pred = 1
    Label = 2


class DeviceLayout(NamedEnum):
    """Order of global device ids over processes."""

    LocalFirst = 0
    NodeFirst = 1


class AllReduceAlgo(NamedEnum):
    """All-reduce algorithm of the dense gradients."""

    OneShot = 0
    NCCL = 1


class CommunicationType(NamedEnum):
    """Network that the hybrid embedding plans for."""

    IB_NVLink_Hier = 0
    IB_NVLink = 1
    NVLink_SingleNode = 2


class HybridEmbeddingType(NamedEnum):
    """Variant of the hybrid embedding."""

    Distributed = 0


class Distribution_t(NamedEnum):
    """Key distribution of generated data."""

    Uniform = 0
    PowerLaw = 1


class PowerLaw_t(NamedEnum):
    """Tail of generated power-law keys: alpha 0.9, 1.1, 1.3 or the one given."""

    Long = 0
    Medium = 1
    Short = 2
    Specific = 3


class CommunicationStrategy(NamedEnum):
    """Network that the exchange of an embedding collection is made for."""

    Uniform = 0
    Hierarchical = 1


class CompressionStrategy(NamedEnum):
    """What of a table travels: sums of slots, or distinct rows."""

    Reduction = 0
    Unique = 1


class Tensor_t(NamedEnum):
    """Which of the two networks ``check_out_tensor`` looks into."""

    Train = 0
    Evaluate = 1


class GroupLayer_t(NamedEnum):
    """Kinds of layer groups."""

    GroupFusedInnerProduct = 0


class TrainPSType_t(NamedEnum):
    """Host side of the embedding training cache."""

    Staged = 0
    Cached = 1


class Layer_t(NamedEnum):
    """Types of dense layers, losses included."""

    BatchNorm = 0
    BinaryCrossEntropyLoss = 1
    Reshape = 2
    Concat = 3
    CrossEntropyLoss = 4
    Dropout = 5
    ELU = 6
    InnerProduct = 7
    FusedInnerProduct = 8
    Interaction = 9
    MultiCrossEntropyLoss = 10
    ReLU = 11
    ReLUHalf = 12
    GRU = 13
    MatrixMultiply = 14
    Scale = 15
    FusedReshapeConcat = 16
    FusedReshapeConcatGeneral = 17
    Softmax = 18
    PReLU_Dice = 19
    ReduceMean = 20
    Sub = 21
    Gather = 22
    Sigmoid = 23
    Slice = 24
    WeightMultiply = 25
    Multiply = 25  # its name in v2.3
    FmOrder2 = 26
    Add = 27
    ReduceSum = 28
    MultiCross = 29
    Cast = 30
    DotProduct = 31
    ElementwiseMultiply = 32
    Tanh = 33
    Softplus = 34
    LayerNorm = 40
    MLP = 41
    MultiHeadAttention = 42
    Select = 43
    SequenceMask = 44
    MSELoss = 60
    HuberLoss = 61
