"""The part of a SavedModel's graph that computes: what saves variables is left out, what else reaches out is refused.

A SavedModel always has operators that write files: those that save its variables. Nothing of a server calls them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

RESTORE = "RestoreV2"
"""Reads variables; allowed where the loader says from which file."""
CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
PLACEHOLDERS = {"Placeholder", "PlaceholderWithDefault"}
SIGNATURE = "serving_default"
INITIALISER = "__saved_model_init_op"
MAIN = "saved_model_main_op"


def keep_computing(graph: Any) -> set[str]:
    """Leave out of a meta graph what does more than compute; the operators that it cannot do without.

    An empty set: all that is left are operators of COMPUTING, calls of functions that are left, and the restoring of
    the model's own variables.
    """
    functions = {function.signature.name: function for function in graph.graph_def.library.function}
    nodes = {node.name: node for node in graph.graph_def.node}
    if len(functions) < len(graph.graph_def.library.function) or len(nodes) < len(graph.graph_def.node):
        return {"two parts of one name"}
    file = _node_of(graph.saver_def.filename_tensor_name)
    if file not in nodes or nodes[file].op not in PLACEHOLDERS:
        file = ""
    restoring = {name for name, function in functions.items() if _restores(function)}
    reaching = _reaching_functions(functions, restoring)
    forbidden = {**dict.fromkeys(restoring, RESTORE), **reaching}
    loading, outside = {}, {}
    for name, node in nodes.items():
        if _loads(node, functions, restoring - reaching.keys(), file):
            loading[name] = RESTORE
        elif why := _why(node, functions, forbidden):
            outside[name] = why
    removed = _descendants(nodes, outside)
    found = {removed.get(name, f"a missing node {name[:40]!r}") for name in _required(graph) - (nodes.keys() - removed)}
    found |= {RESTORE for name in _descendants(nodes, loading) if name in _answers(graph)}
    for name in graph.object_graph_def.concrete_functions:
        if name not in functions or name in forbidden:
            found.add(forbidden.get(name, f"a missing function {name[:40]!r}"))
    if not found:
        _remove(graph, removed.keys(), reaching.keys())
    return found


def _reaching_functions(functions: Mapping[str, Any], restoring: set[str]) -> dict[str, str]:
    """The functions that do more than compute, themselves or in what they call -> an operator that does."""
    reasons: dict[str, str] = {}
    callers = defaultdict(list)
    for name, function in functions.items():
        for node in function.node_def:
            for each in _called(node) & functions.keys():
                callers[each].append(name)
            if name in restoring and node.op == RESTORE and RESTORE not in functions:
                continue
            if why := _why(node, functions, dict.fromkeys(restoring, RESTORE)):
                reasons[name] = why
    return _spread(reasons, callers)


def _why(node: Any, functions: Mapping[str, Any], forbidden: Mapping[str, str]) -> str | None:
    """The operator by which a node does more than compute; None where it only computes."""
    called = _called(node)
    if node.op not in functions and node.op not in COMPUTING:
        return str(node.op)
    return next((forbidden[name] for name in called if name in forbidden), None)


def _called(node: Any) -> set[str]:
    """All names by which a node may call functions."""
    names, waiting = {node.op}, [node.attr]
    while waiting:
        for value in waiting.pop().values():
            kind = value.WhichOneof("value")
            for function in (value.func,) if kind == "func" else value.list.func if kind == "list" else ():
                names.add(function.name)
                waiting.append(function.attr)
    return names


def _restores(function: Any) -> bool:
    """Return True if a function restores variables from a file that its caller names."""
    arguments = {argument.name for argument in function.signature.input_arg}
    nodes = [node for node in function.node_def if node.op == RESTORE]
    return bool(nodes) and all(node.input and node.input[0] in arguments for node in nodes)


def _loads(node: Any, functions: Mapping[str, Any], restoring: set[str], file: str) -> bool:
    """Return True if a node of the graph restores the variables from the file that the loader names."""
    called = _called(node) & functions.keys()
    if not file:
        return False
    if node.op == RESTORE and not called:
        return bool(node.input) and _node_of(node.input[0]) == file
    if node.op not in CALLS or len(called) != 1 or not called <= restoring:
        return False
    function = functions[called.pop()]
    taken = {each.input[0] for each in function.node_def if each.op == RESTORE}
    places = [place for place, argument in enumerate(function.signature.input_arg) if argument.name in taken]
    return all(place < len(node.input) and _node_of(node.input[place]) == file for place in places)


def _descendants(nodes: Mapping[str, Any], first: Mapping[str, str]) -> dict[str, str]:
    """Nodes, and all that take something of theirs or wait for them -> the reason of the first one."""
    readers = defaultdict(list)
    for name, node in nodes.items():
        for source in node.input:
            readers[_node_of(source)].append(name)
    return _spread(first, readers)


def _spread(first: Mapping[str, str], after: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Give what comes after a name, and after that, the name's own reason."""
    found = dict(first)
    waiting = list(found)
    while waiting:
        name = waiting.pop()
        for each in after.get(name, ()):
            if each not in found:
                found[each] = found[name]
                waiting.append(each)
    return found


def _answers(graph: Any) -> set[str]:
    """The nodes that answer requests."""
    outputs = graph.signature_def[SIGNATURE].outputs if SIGNATURE in graph.signature_def else {}
    return {name for output in outputs.values() for name in _tensors(output)}


def _required(graph: Any) -> set[str]:
    """The nodes that loading the model and answering need."""
    needed = _answers(graph) | {_node_of(graph.saver_def.restore_op_name)}
    if SIGNATURE in graph.signature_def:
        needed |= {name for each in graph.signature_def[SIGNATURE].inputs.values() for name in _tensors(each)}
    if INITIALISER in graph.signature_def:
        needed |= {name for each in graph.signature_def[INITIALISER].outputs.values() for name in _tensors(each)}
    for key in {MAIN, "legacy_init_op"} & graph.collection_def.keys():
        needed |= {_node_of(name) for name in graph.collection_def[key].node_list.value}
    needed |= {each.constant.operation for each in graph.object_graph_def.nodes if each.HasField("constant")}
    return needed - {""}


def _tensors(info: Any) -> Iterator[str]:
    if info.WhichOneof("encoding") == "composite_tensor":
        for part in info.composite_tensor.components:
            yield from _tensors(part)
    elif info.WhichOneof("encoding") == "coo_sparse":
        sparse = info.coo_sparse
        names = (sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name)
        yield from map(_node_of, names)
    else:
        yield _node_of(info.name)


def _node_of(tensor: str) -> str:
    """The node of a tensor or of a control input: `^a`, `a:0` and `a` are a's."""
    return tensor.removeprefix("^").partition(":")[0]


def _remove(graph: Any, nodes: Iterable[str], functions: Iterable[str]) -> None:
    """Take nodes and functions out, with all that names them."""
    gone, lost = set(nodes), set(functions)
    library = graph.graph_def.library
    parts: tuple[tuple[Any, Callable[[Any], bool]], ...] = (
        (graph.graph_def.node, lambda node: node.name not in gone),
        (library.function, lambda function: function.signature.name not in lost),
        (library.gradient, lambda each: not lost & {each.function_name, each.gradient_func}),
        (library.registered_gradients, lambda each: each.gradient_func not in lost),
    )
    for held, stays in parts:
        kept = [each for each in held if stays(each)]
        if len(kept) < len(held):
            del held[:]
            held.extend(kept)
    for name, signature in list(graph.signature_def.items()):
        ports = (*signature.inputs.values(), *signature.outputs.values())
        if gone & {tensor for port in ports for tensor in _tensors(port)}:
            del graph.signature_def[name]
    for name, collection in list(graph.collection_def.items()):
        if gone & set(map(_node_of, collection.node_list.value)):
            del graph.collection_def[name]


_NAMES = """
Abs AccumulateNV2 Acos Acosh Add AddN AddV2 AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation All Angle
AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable Any ApproxTopK ApproximateEqual ArgMax
ArgMin AsString Asin Asinh Assert Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp
Atan Atan2 Atanh AudioSpectrogram AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BandedTriangularSolve BatchCholesky
BatchCholeskyGrad BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D BatchMatMul BatchMatMulV2
BatchMatMulV3 BatchMatrixBandPart BatchMatrixDeterminant BatchMatrixDiag BatchMatrixDiagPart BatchMatrixInverse
BatchMatrixSetDiag BatchMatrixSolve BatchMatrixSolveLs BatchMatrixTriangularSolve BatchNormWithGlobalNormalization
BatchNormWithGlobalNormalizationGrad BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd BatchToSpace BatchToSpaceND
BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1
Betainc BiasAdd BiasAddGrad BiasAddV1 Bincount Bitcast BitwiseAnd BitwiseOr BitwiseXor BlockLSTM BlockLSTMGrad
BlockLSTMGradV2 BlockLSTMV2 BroadcastArgs BroadcastGradientArgs BroadcastTo Bucketize CSRSparseMatrixComponents
CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss CTCLossV2 Case Cast
Ceil CheckNumerics CheckNumericsV2 Cholesky CholeskyGrad ClipByValue CombinedNonMaxSuppression Complex ComplexAbs
Concat ConcatOffset ConcatV2 Conj ConjugateTranspose Const ControlTrigger Conv Conv2D Conv2DBackpropFilter
Conv2DBackpropFilterV2 Conv2DBackpropInput Conv2DBackpropInputV2 Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2
Conv3DBackpropInput Conv3DBackpropInputV2 Cos Cosh CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage Cross
CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3 CudnnRNNCanonicalToParams CudnnRNNCanonicalToParamsV2
CudnnRNNParamsSize CudnnRNNParamsToCanonical CudnnRNNParamsToCanonicalV2 CudnnRNNV2 CudnnRNNV3 Cumprod Cumsum
CumulativeLogsumexp DataFormatDimMap DataFormatVecPermute Dawsn DecodeAndCropJpeg DecodeBase64 DecodeBmp DecodeCSV
DecodeGif DecodeImage DecodeJpeg DecodeJxl DecodePaddedRaw DecodePng DecodeRaw DecodeWav DecodeWebP DeepCopy
DenseBincount DenseCountSparseOutput DenseToCSRSparseMatrix DenseToDenseSetOperation DenseToSparseSetOperation
DepthToSpace DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Dequantize
DeserializeManySparse DeserializeSparse DestroyResourceOp Diag DiagPart Digamma Dilation2D Dilation2DBackpropFilter
Dilation2DBackpropInput DisableCopyOnRead Div DivNoNan DrawBoundingBoxes DrawBoundingBoxesV2 DynamicPartition
DynamicStitch EditDistance Eig Einsum Elu EluGrad Empty EmptyTensorList EmptyTensorMap EncodeBase64 EnsureShape Enter
Equal Erf Erfc Erfinv EuclideanNorm Exit Exp ExpandDims Expint Expm1 ExtractGlimpse ExtractGlimpseV2
ExtractImagePatches ExtractJpegShape ExtractVolumePatches FFT FFT2D FFT3D FFTND FakeParam FakeQuantWithMinMaxArgs
FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient
FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient Fill Fingerprint Floor FloorDiv FloorMod
For FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad FresnelCos FresnelSin
FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3
FusedPadConv2D FusedResizeAndPadConv2D GRUBlockCell GRUBlockCellGrad Gather GatherNd GatherV2
GenerateBoundingBoxProposals Greater GreaterEqual GuaranteeConst HSVToRGB HashTable HashTableV2 HistogramFixedWidth
IFFT IFFT2D IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND Identity IdentityN If Igamma IgammaGradA Igammac Imag
ImageProjectiveTransformV2 ImageProjectiveTransformV3 InTopK InTopKV2 InitializeTable InitializeTableV2 InplaceAdd
InplaceSub InplaceUpdate Inv InvGrad Invert InvertPermutation IsFinite IsInf IsNan IsVariableInitialized
KthOrderStatistic L2Loss LRN LRNGrad LSTMBlockCell LSTMBlockCellGrad LeakyRelu LeakyReluGrad LeftShift Less LessEqual
Lgamma LinSpace ListDiff Log Log1p LogMatrixDeterminant LogSoftmax LogicalAnd LogicalNot LogicalOr LookupTableExport
LookupTableExportV2 LookupTableFind LookupTableFindV2 LookupTableImport LookupTableImportV2 LookupTableInsert
LookupTableInsertV2 LookupTableSize LookupTableSizeV2 LoopCond LowerBound Lu MakeUnique MatMul MatrixBandPart
MatrixDeterminant MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
MatrixExponential MatrixInverse MatrixLogarithm MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MatrixSolve
MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Max MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad
MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2 MaxPoolGradWithArgmax MaxPoolV2
MaxPoolWithArgmax Maximum Mean Merge Mfcc Min Minimum MirrorPad MirrorPadGrad Mod Mul MulNoNan Multinomial
MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableV2 Ndtri Neg NextAfter NextIteration
NoOp NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5
NonMaxSuppressionWithOverlaps NotEqual NthElement OneHot OnesLike OptionalFromValue OptionalGetValue OptionalHasValue
OptionalNone Pack Pad PadV2 ParallelDynamicStitch ParameterizedTruncatedNormal ParseExample ParseExampleV2
ParseSequenceExample ParseSequenceExampleV2 ParseSingleExample PartitionedCall Placeholder PlaceholderV2
PlaceholderWithDefault Polygamma PopulationCount Pow PreventGradient Prod Qr QuantizeAndDequantize
QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad
QuantizeDownAndShrinkRange QuantizeV2 QuantizedAdd QuantizedAvgPool QuantizedBatchNormWithGlobalNormalization
QuantizedBiasAdd QuantizedConcat QuantizedConcatV2 QuantizedConv2D QuantizedConv2DAndRelu
QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize QuantizedConv2DPerChannel QuantizedConv2DWithBias
QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize QuantizedConv2DWithBiasAndRequantize
QuantizedConv2DWithBiasSignedSumAndReluAndRequantize QuantizedConv2DWithBiasSumAndRelu
QuantizedConv2DWithBiasSumAndReluAndRequantize QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias
QuantizedDepthwiseConv2DWithBiasAndRelu QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize QuantizedInstanceNorm
QuantizedMatMul QuantizedMatMulWithBias QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu
QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize QuantizedMaxPool QuantizedMul
QuantizedRelu QuantizedRelu6 QuantizedReluX QuantizedReshape QuantizedResizeBilinear RFFT RFFT2D RFFT3D RFFTND
RGBToHSV RaggedBincount RaggedCountSparseOutput RaggedCross RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather
RaggedRange RaggedTensorFromVariant RaggedTensorToSparse RaggedTensorToTensor RaggedTensorToVariant
RaggedTensorToVariantGradient RandomCrop RandomGamma RandomGammaGrad RandomIndexShuffle RandomPoisson RandomPoissonV2
RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt Range Rank ReadVariableOp Real RealDiv Reciprocal
ReciprocalGrad ReduceJoin RefEnter RefExit RefIdentity RefMerge RefNextIteration RefSelect RefSwitch RegexFullMatch
RegexReplace Relu Relu6 Relu6Grad ReluGrad RequantizationRange RequantizationRangePerChannel Requantize
RequantizePerChannel Reshape ResizeArea ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad
ResizeNearestNeighbor ResizeNearestNeighborGrad ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv
ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdMax
ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate ResourceScatterSub ResourceScatterUpdate
ResourceStridedSliceAssign Reverse ReverseSequence ReverseV2 RightShift Rint RngReadAndSkip RngSkip Roll Round Rsqrt
RsqrtGrad SampleDistortedBoundingBoxV2 ScaleAndTranslate ScaleAndTranslateGrad ScatterAdd ScatterDiv ScatterMax
ScatterMin ScatterMul ScatterNd ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdNonAliasingAdd ScatterNdSub
ScatterNdUpdate ScatterSub ScatterUpdate SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd
SegmentProdV2 SegmentSum SegmentSumV2 Select SelectV2 SelfAdjointEig SelfAdjointEigV2 Selu SeluGrad
SerializeManySparse SerializeSparse SerializeTensor SetSize Shape ShapeN Sigmoid SigmoidGrad Sign Sin Sinh Size Slice
Snapshot SobolSample Softmax SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign SoftsignGrad SpaceToBatch
SpaceToBatchND SpaceToDepth SparseAdd SparseAddGrad SparseBincount SparseConcat SparseCountSparseOutput SparseCross
SparseCrossHashed SparseCrossV2 SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseFillEmptyRows
SparseFillEmptyRowsGrad SparseMatMul SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixNNZ
SparseMatrixOrderingAMD SparseMatrixSoftmax SparseMatrixSoftmaxGrad SparseMatrixSparseCholesky
SparseMatrixSparseMatMul SparseMatrixTranspose SparseMatrixZeros SparseReduceMax SparseReduceMaxSparse SparseReduceSum
SparseReduceSumSparse SparseReorder SparseReshape SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanGradV2
SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2
SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumGradV2
SparseSegmentSumWithNumSegments SparseSlice SparseSliceGrad SparseSoftmax SparseSoftmaxCrossEntropyWithLogits
SparseSparseMaximum SparseSparseMinimum SparseSplit SparseTensorDenseAdd SparseTensorDenseMatMul
SparseTensorToCSRSparseMatrix SparseToDense SparseToSparseSetOperation Spence Split SplitV Sqrt SqrtGrad Square
SquaredDifference Squeeze Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush StackPushV2 StackV2
StatefulPartitionedCall StatefulRandomBinomial StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal
StatefulUniform StatefulUniformFullInt StatefulUniformInt StatelessCase StatelessIf StatelessMultinomial
StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3
StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomNormal
StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt
StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2
StatelessSampleDistortedBoundingBox StatelessShuffle StatelessTruncatedNormal StatelessTruncatedNormalV2
StatelessWhile StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice StridedSliceAssign StridedSliceGrad
StringFormat StringJoin StringLength StringLower StringNGrams StringSplit StringSplitV2 StringStrip StringToHashBucket
StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper Sub Substr Sum Svd Switch Tan Tanh TanhGrad
TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayConcat TensorArrayConcatV2
TensorArrayConcatV3 TensorArrayGather TensorArrayGatherV2 TensorArrayGatherV3 TensorArrayGradV3
TensorArrayGradWithShape TensorArrayPack TensorArrayRead TensorArrayReadV2 TensorArrayReadV3 TensorArrayScatter
TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySize TensorArraySizeV2 TensorArraySizeV3 TensorArraySplit
TensorArraySplitV2 TensorArraySplitV3 TensorArrayUnpack TensorArrayV2 TensorArrayV3 TensorArrayWrite
TensorArrayWriteV2 TensorArrayWriteV3 TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListElementShape
TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter TensorListScatterIntoExistingList
TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack TensorMapErase TensorMapHasKey TensorMapInsert
TensorMapLookup TensorMapSize TensorMapStackKeys TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
TensorScatterUpdate TensorStridedSliceUpdate Tile TileGrad ToBool TopK TopKUnique TopKV2 TopKWithUnique Transpose
TridiagonalMatMul TridiagonalSolve TruncateDiv TruncateMod TruncatedNormal UnicodeDecode UnicodeDecodeWithOffsets
UnicodeEncode UnicodeScript UnicodeTranscode UniformDequantize UniformQuantize UniformQuantizedAdd
UniformQuantizedClipByValue UniformQuantizedConvolution UniformQuantizedConvolutionHybrid UniformQuantizedDot
UniformQuantizedDotHybrid UniformRequantize Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack UnravelIndex
UnsortedSegmentJoin UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum UpperBound
VarHandleOp VarIsInitializedOp Variable VariableShape VariableV2 Where While Xdivy Xlog1py Xlogy ZerosLike Zeta
"""
COMPUTING = frozenset(_NAMES.split())
"""Operators that compute: what they give depends on their inputs, on variables and on chance alone.

None of them opens a file or a connection, prints, waits, or runs code that is not the graph's. An operator that is
missing here is refused, also one that TensorFlow adds later.
"""
