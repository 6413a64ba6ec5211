"""The eight categories of operators of AIBench (Figure 5), and an honest ninth.

Tang et al. 2021, "AIBench Training: Balanced Industry-Standard AI Training Benchmarking". They classified kernels by
name, which puts cuDNN's implicit products under "data arrangement"; here the operator decides, whatever kernel
        ran it.
"""

import re

OTHER = "other"
_OPERATORS = {
    "convolution": """conv conv1d conv2d conv3d convolution convtranspose convtranspose1d convtranspose2d
        convtranspose3d fusedconv
        fusedconv2d fusedconv3d qlinearconv convinteger groupconvolution deconvolution convolutionbackpropdata
        groupconvolutionbackpropdata conv2dbackpropinput conv3dbackpropinputv2 depthwiseconv2dnative
        nhwcfusedconv""",
    "gemm": """gemm fusedgemm matmul fusedmatmul matmulinteger matmulintegertofloat dynamicquantizematmul
        qlinearmatmul qgemm
        matmulnbits linear addmm addmv mm bmm mv baddbmm dot fullyconnected batchmatmul batchmatmulv2
        batchmatmulv3 einsum scaleddotproductattention multiheadattention attention
        mha lstm gru rnn rnntanh vanillarnn lstmcell grucell rnncell lstmsequence grusequence rnnseq rnnsequence
        rnncelltanh dynamicquantizelstm""",
    "batch norm": """batchnormalization batchnorm batchnormlegitnotraining fusedbatchnorm
        fusedbatchnormv3
        fusedbatchnormex batchnorminference""",
    "relu": """relu relu6 clip clamp clampmin clampmax hardtanh leakyrelu prelu clipbyvalue
        thresholdedrelu""",
    "pooling": """maxpool averagepool globalaveragepool globalmaxpool lppool globallppool avgpool pooling maxpool1d
        maxpool2d maxpool3d avgpool1d
        avgpool2d avgpool3d maxpool2dwithindices adaptiveavgpool2d adaptivemaxpool2d adaptiveavgpool1d maxpoolv2
        avgpoolv2 adaptivepooling""",
    "memory copy": """memcpy memcpyfromhost memcpytohost memorycopy copy clone tocopy contiguous identity cast
        convert castlike to copyfrom
        detach alias deepcopy memoryinput memoryoutput snapshot liftfreshcopy liftfresh resolveconj resolveneg
        quantizelinear dequantizelinear
        fakequantize""",
    "data arrangement": """transpose reshape flatten squeeze unsqueeze concat concatenation concatv2 cat stack
        pack unpack slice stridedslice
        slicescatter split splitv variadicsplit splitwithsizes chunk unbind gather gatherv2 gatherelements
        gathernd embedding embeddingbag selectscatter index indexselect indexput indexputimpl pad padv2
        constantpadnd expand expanddims tile repeat repeatinterleave broadcast broadcastto resize
        resizenearestneighbor resizebilinear interpolate upsample upsamplenearest2d upsamplebilinear2d scatter
        scatterelements scatterelementsupdate scatternd scatterndupdate scatterupdate tensorscatterupdate reorder
        reorderinput reorderoutput permute view unsafeview asstrided viewas t numpyt depthtospace spacetodepth
        unfold roll flip reverse reversev2 reversesequence onehot eyelike
        compress range arange constantofshape fill full fulllike
        zeros zeroslike ones oneslike newzeros newfull newones empty emptylike shape shapeof size const constant
        constanttensor narrow trilu tril triu matrixbandpart meshgrid pixelshuffle shuffle invertpermutation rank
        ensureshape numpy movedim swapaxes scalartensor collapse""",
    "element-wise": """add addv2 addn addinplace sub subtract mul multiply div divide realdiv truncatediv
        floordiv floormod mod fmod pow
        pows power square sqrt rsqrt reciprocal exp log log1p neg abs sign sin cos tan tanh sigmoid hardsigmoid
        hardswish swish silu mish gelu quickgelu fastgelu biasgelu erf elu selu celu softplus softsign softmax
        logsoftmax softmaxint sum mean max min maximum minimum amax amin prod norm normalizel2 reducesum
        reducemean reducemax reducemin reduceprod reducel1 reducel2 reducelogsumexp logsumexp linalgvectornorm
        reduce all any
        reduceall layernormalization layernorm simplifiedlayernormalization skiplayernormalization
        instancenormalization instancenorm groupnormalization groupnorm lrn mvn lpnormalization biasadd eltwise
        elementwise math subgraph where select selectv2 maskedfill maskedfillscalar equal eq notequal ne less lt
        lessequal lessorequal le greater gt greaterequal greaterorequal ge and or xor not logicaland logicalor
        logicalnot bitwiseand bitwiseor bitwisenot floor ceil round isnan isinf squareddifference remainder lerp
        acos acosh asin asinh atan atanh cosh sinh bitshift bitwisexor hardmax reducelogsum reducesumsquare shrink
        dropout addcmul addcdiv var std rsub logistic threshold floordivide truedivide accumulatenv2 isfinite
        fusedadd""",
    OTHER: """symsize isnonzero asserttensormetadata topk topkv2 sort argsort argmax argmin cumsum cumprod roialign
        gridsample gridsampler gridsampler2d
        nonmaxsuppression
        nonmaxsuppressionv5 multiclassnms matrixnms nms loop scan if while statelesswhile whileloop tensoriterator
        partitionedcall statefulpartitionedcall nonzero unique localresponsenorm stringsplit labelencoder
        cropandresize bucketize multinomial randomuniform nextiteration enter exit switch merge loopcond noop
        assert tensorlistreserve tensorlistsetitem tensorlistgetitem tensorlistfromtensor tensorliststack
        tensorlistsetelement arg retval send recv item localscalardense readvariableop forced fft rfft stft dft
        bincount""",
}
"""Category -> the operators of all engines and of ONNX, as `plain` writes them."""
CATEGORIES = tuple(_OPERATORS)
_KNOWN = {name: category for category, names in reversed(_OPERATORS.items()) for name in names.split()}


def plain(operator: str) -> str:
    """Write an operator without namespace, underscores and oneDNN's prefix: `_MklNativeMaxPool` is `maxpool`."""
    return re.sub(r"[^a-z0-9]", "", operator.lower().rpartition("::")[2]).removeprefix("mkl").removeprefix("native")


def known(operator: str) -> bool:
    """Return True if an operator stands in the table."""
    return plain(operator) in _KNOWN


def category_of(operator: str) -> str:
    """Return the category of an operator; one that is not in the table belongs to the ninth."""
    return _KNOWN.get(plain(operator), OTHER)
