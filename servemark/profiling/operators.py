"""Operators by name: their category, and from the shapes of their tensors their operations and bytes.

The eight categories are those of AIBench (Figure 5), with an honest ninth: Tang et al. 2021, "AIBench Training:
Balanced Industry-Standard AI Training Benchmarking". They classified kernels by name, which puts cuDNN's implicit
products under "data arrangement"; here the operator decides, whatever kernel ran it.

Operations follow the rule of the zoo's FLOPs: multiply-adds times 2 in convolutions, products and recurrent gates; 0
for all else (docs/explanation/metrics.md). Bytes are what an operator has to move: each tensor once, and of a table the
rows that are taken.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

OTHER = "other"
_OPERATORS = {
    "convolution": """conv conv1d conv2d conv3d convolution convtranspose convtranspose1d convtranspose2d
        convtranspose3d fusedconv fusedconv2d fusedconv3d qlinearconv convinteger groupconvolution
        deconvolution convolutionbackpropdata groupconvolutionbackpropdata conv2dbackpropinput
        conv3dbackpropinputv2 depthwiseconv2dnative nhwcfusedconv""",
    "gemm": """gemm fusedgemm matmul fusedmatmul matmulinteger matmulintegertofloat dynamicquantizematmul
        qlinearmatmul qgemm matmulnbits linear addmm addmv mm bmm mv baddbmm dot fullyconnected batchmatmul
        batchmatmulv2 batchmatmulv3 einsum scaleddotproductattention multiheadattention attention mha lstm gru
        rnn rnntanh vanillarnn lstmcell grucell rnncell lstmsequence grusequence rnnseq rnnsequence
        rnncelltanh dynamicquantizelstm""",
    "batch norm": """batchnormalization batchnorm batchnormlegitnotraining fusedbatchnorm fusedbatchnormv3
        fusedbatchnormex batchnorminference""",
    "relu": """relu relu6 clip clamp clampmin clampmax hardtanh leakyrelu prelu clipbyvalue thresholdedrelu""",
    "pooling": """maxpool averagepool globalaveragepool globalmaxpool lppool globallppool avgpool pooling
        maxpool1d maxpool2d maxpool3d avgpool1d avgpool2d avgpool3d maxpool2dwithindices adaptiveavgpool2d
        adaptivemaxpool2d adaptiveavgpool1d maxpoolv2 avgpoolv2 adaptivepooling""",
    "memory copy": """memcpy memcpyfromhost memcpytohost memorycopy copy clone tocopy contiguous identity cast
        convert castlike to copyfrom detach alias deepcopy memoryinput memoryoutput snapshot liftfreshcopy
        liftfresh resolveconj resolveneg quantizelinear dequantizelinear fakequantize""",
    "data arrangement": """transpose reshape flatten squeeze unsqueeze concat concatenation concatv2 cat stack
        pack unpack slice stridedslice slicescatter split splitv variadicsplit splitwithsizes chunk unbind
        gather gatherv2 gatherelements gathernd embedding embeddingbag selectscatter index indexselect
        indexput indexputimpl pad padv2 constantpadnd expand expanddims tile repeat repeatinterleave broadcast
        broadcastto resize resizenearestneighbor resizebilinear interpolate upsample upsamplenearest2d
        upsamplebilinear2d scatter scatterelements scatterelementsupdate scatternd scatterndupdate
        scatterupdate tensorscatterupdate reorder reorderinput reorderoutput permute view unsafeview asstrided
        viewas t numpyt depthtospace spacetodepth unfold roll flip reverse reversev2 reversesequence onehot
        eyelike compress range arange constantofshape fill full fulllike zeros zeroslike ones oneslike
        newzeros newfull newones empty emptylike shape shapeof size const constant constanttensor narrow trilu
        tril triu matrixbandpart meshgrid pixelshuffle shuffle invertpermutation rank ensureshape numpy
        movedim swapaxes scalartensor collapse""",
    "element-wise": """add addv2 addn addinplace sub subtract mul multiply div divide realdiv truncatediv
        floordiv floormod mod fmod pow pows power square sqrt rsqrt reciprocal exp log log1p neg abs sign sin
        cos tan tanh sigmoid hardsigmoid hardswish swish silu mish gelu quickgelu fastgelu biasgelu erf elu
        selu celu softplus softsign softmax logsoftmax softmaxint sum mean max min maximum minimum amax amin
        prod norm normalizel2 reducesum reducemean reducemax reducemin reduceprod reducel1 reducel2
        reducelogsumexp logsumexp linalgvectornorm reduce all any reduceall layernormalization layernorm
        simplifiedlayernormalization skiplayernormalization instancenormalization instancenorm
        groupnormalization groupnorm lrn mvn lpnormalization biasadd eltwise elementwise math subgraph where
        select selectv2 maskedfill maskedfillscalar equal eq notequal ne less lt lessequal lessorequal le
        greater gt greaterequal greaterorequal ge and or xor not logicaland logicalor logicalnot bitwiseand
        bitwiseor bitwisenot floor ceil round isnan isinf squareddifference remainder lerp acos acosh asin
        asinh atan atanh cosh sinh bitshift bitwisexor hardmax reducelogsum reducesumsquare shrink dropout
        addcmul addcdiv var std rsub logistic threshold floordivide truedivide accumulatenv2 isfinite fusedadd""",
    OTHER: """symsize isnonzero asserttensormetadata topk topkv2 sort argsort argmax argmin cumsum cumprod
        roialign gridsample gridsampler gridsampler2d nonmaxsuppression nonmaxsuppressionv5 multiclassnms
        matrixnms nms loop scan if while statelesswhile whileloop tensoriterator partitionedcall
        statefulpartitionedcall nonzero unique localresponsenorm stringsplit labelencoder cropandresize
        bucketize multinomial randomuniform nextiteration enter exit switch merge loopcond noop assert
        tensorlistreserve tensorlistsetitem tensorlistgetitem tensorlistfromtensor tensorliststack
        tensorlistsetelement arg retval send recv item localscalardense readvariableop forced fft rfft stft
        dft bincount""",
}
"""Category -> the operators of all engines and of ONNX, as `plain` writes them."""
CATEGORIES = tuple(_OPERATORS)
_KNOWN = {name: category for category, names in reversed(_OPERATORS.items()) for name in names.split()}
_RECURRENT = {"lstm", "gru", "rnn", "dynamicquantizelstm"}
_RECURRENT_OF_OPENVINO = {"lstmsequence", "grusequence", "rnnsequence", "lstmcell", "grucell", "rnncell", "rnnseq"}
_ATTENTION = {"scaleddotproductattention", "multiheadattention", "attention"}
_UNTOLD = {"mha", "rnntanh", "vanillarnn", "rnncelltanh"}
"""Products within, of which the shapes do not tell which."""
_PACKED = {"fullyconnected", "matmulnbits"}
"""Products whose weights may be packed in groups, so that their shape does not tell the width that is summed."""
_TRANSPOSED = {
    "convtranspose",
    "deconvolution",
    "convolutionbackpropdata",
    "groupconvolutionbackpropdata",
    "conv2dbackpropinput",
    "conv3dbackpropinputv2",
}
_TAKES_ROWS = {"gather", "gatherv2", "embedding", "indexselect", "gathernd", "gatherelements"}
_MOVES_NOTHING = {"reshape", "flatten", "squeeze", "unsqueeze", "expanddims", "shape", "shapeof", "size", "constant"}


def plain(operator: str) -> str:
    """Write an operator without namespace, underscores and oneDNN's prefix: `_MklNativeMaxPool` is `maxpool`."""
    return re.sub(r"[^a-z0-9]", "", operator.lower().rpartition("::")[2]).removeprefix("mkl").removeprefix("native")


def known(operator: str) -> bool:
    """Return True if an operator stands in the table."""
    return plain(operator) in _KNOWN


def category_of(operator: str) -> str:
    """Return the category of an operator; one that is not in the table belongs to the ninth."""
    return _KNOWN.get(plain(operator), OTHER)


Work = tuple[int | None, int | None]
"""Operations and bytes; None where they are not told."""


@dataclass(frozen=True)
class Shaped:
    """A tensor without its contents."""

    shape: tuple[int, ...]
    item_bytes: int = 4

    @property
    def bytes(self) -> int:
        """Size (bytes)."""
        return prod(self.shape) * self.item_bytes


def work_of(
    operator: str, inputs: Sequence[Shaped | None], outputs: Sequence[Shaped | None], *, window_first: bool = False
) -> Work:
    """Operations and bytes of one call; neither where a shape is not known."""
    known_in, known_out = [each for each in inputs if each], [each for each in outputs if each]
    if len(known_in) < len(inputs) or len(known_out) < len(outputs):
        return None, None
    return flops_of(operator, known_in, known_out, window_first=window_first), bytes_of(operator, known_in, known_out)


def flops_of(
    operator: str, inputs: Sequence[Shaped], outputs: Sequence[Shaped], *, window_first: bool = False
) -> int | None:
    """Operations of one call; None where a tensor is missing.

    Weights of a convolution are [channels out, channels in / groups, window] in ONNX, [window, channels in / groups,
    channels out] in TensorFlow (`window_first`); those of a transposed one have in and out the other way round.
    """
    try:
        return _flops(operator, inputs, outputs, window_first=window_first)
    except (IndexError, StopIteration, ValueError):
        return None


def _flops(operator: str, inputs: Sequence[Shaped], outputs: Sequence[Shaped], *, window_first: bool) -> int | None:
    kind, category = plain(operator), category_of(operator)
    if kind in _UNTOLD:
        return None
    if kind in _ATTENTION:
        return _attention([each.shape for each in inputs], [each.shape for each in outputs])
    if kind in _RECURRENT | _RECURRENT_OF_OPENVINO:
        # Both matrices, [ways, gates * hidden, width], stand behind the data in ONNX, before the bias in OpenVINO.
        first, second = inputs[1:3] if kind in _RECURRENT else inputs[-3:-1]
        return 2 * prod(inputs[0].shape[:-1]) * (prod(first.shape) + prod(second.shape))
    if category == "convolution":
        data = inputs[2 if window_first else 0] if kind in _TRANSPOSED else outputs[0]
        weights = next(each.shape for each in inputs[1:] if len(each.shape) > 2)
        window = weights[:-1] if window_first else weights[2 if kind.startswith("group") else 1 :]
        return 2 * prod(data.shape) * prod(window)
    if category == "gemm":
        left, right = inputs[0].shape, next(each.shape for each in inputs[1:] if len(each.shape) > 1)
        inner = left[-1] if kind in _PACKED or left[-1] in right[-2:] else left[-2]
        return 2 * prod(outputs[0].shape) * inner
    return 0


def _attention(inputs: Sequence[tuple[int, ...]], outputs: Sequence[tuple[int, ...]]) -> int | None:
    """Operations of two products: 4 * batch * heads * queries * keys * width where keys and values are as wide.

    None unless queries, keys and values are [..., places, width] alike: other forms pack them, or project them first.
    An operator that gives the keys back has more of them than its input.
    """
    if len(inputs) < 3 or len(outputs) != 1 or len({len(shape) for shape in inputs[:3]}) > 1 or len(inputs[0]) < 3:
        return None
    queries, keys, values = inputs[:3]
    return 2 * keys[-2] * (prod(queries) + prod(outputs[0])) if keys[-2] == values[-2] else None


def bytes_of(operator: str, inputs: Sequence[Shaped], outputs: Sequence[Shaped]) -> int:
    """Bytes that one call has to move."""
    kind = plain(operator)
    if kind in _MOVES_NOTHING:
        return 0
    written = sum(each.bytes for each in outputs)
    if kind in _TAKES_ROWS:
        return 2 * written + sum(each.bytes for each in inputs[1:])
    return written + sum(each.bytes for each in inputs)
