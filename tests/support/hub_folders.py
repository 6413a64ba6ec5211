"""Models of libraries: names, folders of small ones of Transformers, and the libraries without their hub."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from servemark.hub.blocks import description as hub
from servemark.hub.blocks.sentences import POOLING
from servemark.workload import Workload, get
from servemark.workload.imported import MODELS

TIMM = (
    "convnext_atto", "deit_tiny_patch16_224", "efficientnet_b0", "efficientvit_b0", "eva02_tiny_patch14_336",
    "ghostnet_100", "hardcorenas_a", "levit_128s", "lcnet_050", "mixnet_s", "mobilenetv3_small_050",
    "mobilenetv4_conv_small", "mobilevit_xxs", "poolformer_s12", "regnety_002", "repvgg_a0", "resnet18",
    "swin_tiny_patch4_window7_224", "tinynet_e", "vit_tiny_patch16_224",
)  # fmt: skip
TORCHVISION = (
    "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "mnasnet0_5", "mobilenet_v3_small",
    "regnet_y_400mf", "shufflenet_v2_x0_5", "swin_t", "vit_b_16",
)  # fmt: skip
NAMES = (*(f"timm/{each}" for each in TIMM), *(f"torchvision/{each}" for each in TORCHVISION))
"""Twenty classifiers of timm and ten of torchvision."""
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TEXT = {**SMALL, "vocab_size": 300, "max_position_embeddings": 40}
PICTURE = {**SMALL, "image_size": 32, "patch_size": 8, "num_labels": 7}
VISION = {**SMALL, "image_size": 32, "patch_size": 8}
FOLDERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertForSequenceClassification", {**TEXT, "num_labels": 3}),
    "questions": ("BertConfig", "BertForQuestionAnswering", TEXT),
    "roberta": ("RobertaConfig", "RobertaModel", {**TEXT, "pad_token_id": 1}),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertForTokenClassification",
        {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "vocab_size": 300, "max_position_embeddings": 40},
    ),
    "deberta": (
        "DebertaV2Config",
        "DebertaV2Model",
        {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16},
    ),
    "sentences": ("BertConfig", "BertModel", TEXT),
    "vit": ("ViTConfig", "ViTForImageClassification", PICTURE),
    "swin": (
        "SwinConfig",
        "SwinForImageClassification",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
        | {"num_labels": 7},
    ),
    "clip": (
        "CLIPConfig",
        "CLIPModel",
        {"text_config": TEXT, "vision_config": VISION, "projection_dim": 16},
    ),
    "detr": (
        "DetrConfig",
        "DetrForObjectDetection",
        {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
        | {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_queries": 10, "num_labels": 5}
        | {
            "backbone_config": {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 16, 16]}
            | {"depths": [1, 1, 1, 1], "out_features": ["stage4"]}
        },
    ),
    "segformer": (
        "SegformerConfig",
        "SegformerForSemanticSegmentation",
        {"image_size": 64, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "decoder_hidden_size": 16}
        | {"num_attention_heads": [1, 2, 2, 4], "num_labels": 5},
    ),
    "wav2vec2": (
        "Wav2Vec2Config",
        "Wav2Vec2ForCTC",
        {**SMALL, "vocab_size": 12, "conv_dim": [16, 16, 16], "conv_stride": [10, 8, 4], "conv_kernel": [10, 8, 4]}
        | {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2},
    ),
    "whisper": (
        "WhisperConfig",
        "WhisperModel",
        {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_layers": 1}
        | {"decoder_attention_heads": 2, "decoder_ffn_dim": 64, "vocab_size": 300, "max_source_positions": 60}
        | {"num_mel_bins": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
    ),
    "t5": (
        "T5Config",
        "T5EncoderModel",
        {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 300},
    ),
}
"""Thirteen architectures, BERT with several heads: class of the configuration, class of the network, small sizes."""
SOUND = FOLDERS["wav2vec2"][2]
STAGES = {"image_size": 64, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "num_labels": 7}
DINO = {**SMALL, "image_size": 56, "patch_size": 14}
DEPTH = {"neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16}
FOUR = {"num_hidden_layers": 4}
OUT = {"out_features": ["stage1", "stage2", "stage3", "stage4"]}
IMAGES, CLASSES = "ForImageClassification", {"image_size": 64, "num_labels": 7}
OTHERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "albert": ("Albert", "Model", {**TEXT, "embedding_size": 16}),
    "audio-spectrogram-transformer": (
        "AST",
        "ForAudioClassification",
        {**SMALL, "max_length": 64, "num_mel_bins": 16, "patch_size": 8, "frequency_stride": 8, "time_stride": 8},
    ),
    "beit": ("Beit", IMAGES, PICTURE),
    "camembert": ("Camembert", "ForSequenceClassification", {**TEXT, "pad_token_id": 1}),
    "conditional_detr": ("ConditionalDetr", "ForObjectDetection", FOLDERS["detr"][2]),
    "convbert": ("ConvBert", "Model", {**TEXT, "embedding_size": 32, "head_ratio": 1}),
    "convnext": ("ConvNext", IMAGES, STAGES),
    "convnextv2": ("ConvNextV2", IMAGES, STAGES),
    "cvt": ("Cvt", IMAGES, {**CLASSES, "embed_dim": [16, 16, 32], "num_heads": [1, 1, 2], "depth": [1, 2, 3]}),
    "data2vec-audio": ("Data2VecAudio", "ForCTC", {**SOUND, "conv_pos_kernel_size": 16}),
    "data2vec-text": ("Data2VecText", "Model", {**TEXT, "pad_token_id": 1}),
    "deberta v1": ("Deberta", "Model", TEXT),
    "deit": ("DeiT", IMAGES, PICTURE),
    "depth_anything": (
        "DepthAnything",
        "ForDepthEstimation",
        {**DEPTH, "reassemble_hidden_size": 32, "head_hidden_size": 8}
        | {
            "backbone_config": {"model_type": "dinov2", **DINO, "num_hidden_layers": 4, "reshape_hidden_states": False}
            | OUT
        },
    ),
    "dinov2": ("Dinov2", "Model", DINO),
    "dinov2_with_registers": ("Dinov2WithRegisters", IMAGES, DINO),
    "dinov3_vit": ("DINOv3ViT", "Model", VISION),
    "dpt": (
        "DPT",
        "ForDepthEstimation",
        {**VISION, **DEPTH, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3]},
    ),
    "efficientnet": (
        "EfficientNet",
        IMAGES,
        {**CLASSES, "hidden_dim": 320, "width_coefficient": 0.25, "depth_coefficient": 0.3},
    ),
    "electra": ("Electra", "ForSequenceClassification", {**TEXT, "embedding_size": 16}),
    "ernie": ("Ernie", "Model", TEXT),
    "hubert": ("Hubert", "ForCTC", SOUND),
    "ijepa": ("IJepa", IMAGES, PICTURE),
    "mobilebert": (
        "MobileBert",
        "Model",
        {**TEXT, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}
        | {"num_feedforward_networks": 2},
    ),
    "mobilenet_v2": ("MobileNetV2", IMAGES, {**CLASSES, "depth_multiplier": 0.35}),
    "mobilevit": (
        "MobileViT",
        IMAGES,
        {**CLASSES, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 8, 16, 16, 16, 32]},
    ),
    "modernbert": ("ModernBert", "Model", {**TEXT, "pad_token_id": 0}),
    "mpnet": ("MPNet", "Model", {**TEXT, "pad_token_id": 1}),
    "nystromformer": ("Nystromformer", "Model", TEXT),
    "pvt_v2": ("PvtV2", IMAGES, {**STAGES, "num_attention_heads": [1, 2, 2, 4]}),
    "regnet": ("RegNet", IMAGES, {**STAGES, "embedding_size": 8, "groups_width": 8}),
    "resnet": ("ResNet", IMAGES, {**STAGES, "embedding_size": 8}),
    "roformer": ("RoFormer", "Model", TEXT),
    "siglip": ("Siglip", "Model", {"text_config": {**TEXT, "projection_size": 32}, "vision_config": VISION}),
    "squeezebert": (
        "SqueezeBert",
        "Model",
        {**TEXT, "embedding_size": 32}
        | {f"{part}_groups": 2 for part in ("q", "k", "v", "post_attention", "intermediate", "output")},
    ),
    "swinv2": ("Swinv2", IMAGES, FOLDERS["swin"][2]),
    "unispeech-sat": ("UniSpeechSat", "ForCTC", SOUND),
    "upernet": (
        "UperNet",
        "ForSemanticSegmentation",
        {"num_labels": 5, "hidden_size": 16, "backbone_config": {"model_type": "convnext", **STAGES, **OUT}},
    ),
    "vit encoder": ("ViT", "Model", VISION),
    "wav2vec2 encoder": ("Wav2Vec2", "Model", SOUND),
    "wavlm": ("WavLM", "ForCTC", SOUND),
    "xlm-roberta": ("XLMRoberta", "ForSequenceClassification", {**TEXT, "pad_token_id": 1}),
    "xlm-roberta-xl": ("XLMRobertaXL", "Model", {**TEXT, "pad_token_id": 1}),
    "yolos": (
        "Yolos",
        "ForObjectDetection",
        {**SMALL, "image_size": [64, 64], "patch_size": 8, "num_detection_tokens": 5},
    ),
}
BACKBONE = {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]}
BACKBONE |= {"out_features": ["stage2", "stage3", "stage4"]}
CHANNELS = {"stage_in_channels": [8, 8, 16, 16], "stage_mid_channels": [8] * 4, "stage_out_channels": [8, 16, 16, 16]}
CHANNELS |= {"stage_num_blocks": [1] * 4, "stage_numb_of_layers": [1] * 4}
REAL_TIME = {
    "backbone_config": {"model_type": "rt_detr_resnet", "layer_type": "basic", **BACKBONE},
    "encoder_hidden_dim": 32, "encoder_in_channels": [16, 16, 16], "encoder_layers": 1, "encoder_ffn_dim": 32,
    "encoder_attention_heads": 2, "d_model": 32, "num_queries": 10, "decoder_in_channels": [32, 32, 32],
    "decoder_ffn_dim": 32, "decoder_layers": 2, "decoder_attention_heads": 2, "num_labels": 5, "hidden_expansion": 1.0,
    "num_denoising": 0,
}  # fmt: skip
OTHERS |= {
    "clip text": ("CLIPText", "Model", {**TEXT, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}),
    "clip vision": ("CLIPVision", "Model", VISION),
    "d_fine": (
        "DFine",
        "ForObjectDetection",
        {
            **REAL_TIME,
            "backbone_config": {"model_type": "hgnet_v2", "stem_channels": [3, 8, 8], **BACKBONE, **CHANNELS},
        },
    ),
    "dinov3_convnext": (
        "DINOv3ConvNext",
        "Model",
        {"image_size": 64, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]},
    ),
    "focalnet": (
        "FocalNet",
        IMAGES,
        {**CLASSES, "embed_dim": 16, "depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 64, 64]},
    ),
    "funnel": (
        "Funnel",
        "Model",
        {"vocab_size": 300, "d_model": 32, "n_head": 2, "d_head": 16, "d_inner": 64, "block_sizes": [1, 1]},
    ),
    "ibert": ("IBert", "Model", {**TEXT, "pad_token_id": 1}),
    "levit": (
        "Levit",
        IMAGES,
        {**CLASSES, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 2, 2], "depths": [1, 1, 1]}
        | {"key_dim": [8, 8, 8]},
    ),
    "megatron-bert": ("MegatronBert", "Model", TEXT),
    "mobilenet_v1": ("MobileNetV1", IMAGES, {**CLASSES, "depth_multiplier": 0.25}),
    "mt5": ("MT5", "EncoderModel", FOLDERS["t5"][2]),
    "poolformer": ("PoolFormer", IMAGES, STAGES),
    "rembert": ("RemBert", "Model", {**TEXT, "input_embedding_size": 16, "output_embedding_size": 16}),
    "roberta-prelayernorm": ("RobertaPreLayerNorm", "Model", {**TEXT, "pad_token_id": 1}),
    "rt_detr": ("RTDetr", "ForObjectDetection", REAL_TIME),
    "rt_detr_v2": ("RTDetrV2", "ForObjectDetection", REAL_TIME),
    "sew": ("SEW", "ForCTC", SOUND),
    "siglip vision": ("SiglipVision", "Model", VISION),
    "swiftformer": ("SwiftFormer", IMAGES, {**CLASSES, "embed_dims": [16, 16, 32, 32], "depths": [1, 1, 1, 1]}),
    "table-transformer": ("TableTransformer", "ForObjectDetection", FOLDERS["detr"][2]),
    "unispeech": ("UniSpeech", "ForCTC", SOUND),
    "vit_msn": ("ViTMSN", IMAGES, PICTURE),
    "wav2vec2-conformer": ("Wav2Vec2Conformer", "ForCTC", SOUND),
}
"""The other architectures: beginning of the names of both classes, end of the network's, small sizes."""
SELDOM = {"ibert", "megatron-bert", "mobilenet_v1", "rembert", "roberta-prelayernorm", "sew", "table-transformer"}
SELDOM |= {"unispeech", "vit_msn", "wav2vec2-conformer", "rt_detr", "swiftformer", "funnel", "focalnet", "levit"}
"""Of these, those that are served seldom or are like another."""


def without_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep descriptions apart, and download nothing: the machine that tests may have the network."""
    import torch

    monkeypatch.setenv(MODELS, str(tmp_path / "models"))

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no downloads in a test")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", refuse)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", refuse)
    monkeypatch.setattr("torchvision.models._api.WeightsEnum.get_state_dict", refuse)


def write_folder(name: str, at: Path) -> Path:
    """Write the folder of a small model below `at`."""
    import torch
    import transformers

    config, network, sizes = _classes(name)
    torch.manual_seed(0)
    model = getattr(transformers, network)(getattr(transformers, config)(**sizes))
    model.save_pretrained(at / name)
    if name == "sentences":
        write_embedding(at / name, ["Transformer", "Pooling", "Normalize"], {"pooling_mode_mean_tokens": True})
    return at / name


def imported(name: str, at: Path) -> Workload:
    """Write the folder of a small model below `at`, and import it as "mine"."""
    # A detector's pictures are large otherwise.
    shape = {"pixel_values": (3, 64, 64)} if "Detection" in _classes(name)[1] else {}
    hub.imported(write_folder(name, at), "mine", shape, force=False)
    return get("mine")


def answered(name: str, at: Path, batch: Mapping[str, Any]) -> Any:
    """Answer a batch as Transformers does with the folder below `at`."""
    import torch
    import transformers

    network = getattr(transformers, _classes(name)[1]).from_pretrained(at / name).eval()
    with torch.no_grad():
        return (network.encoder if name == "whisper" else network)(
            **{key: torch.from_numpy(value) for key, value in batch.items()}
        )


def _classes(name: str) -> tuple[str, str, dict[str, Any]]:
    """Classes of a configuration and its network, and the small sizes."""
    if name in FOLDERS:
        return FOLDERS[name]
    begins, ends, sizes = OTHERS[name]
    return f"{begins}Config", f"{begins}{ends}", sizes


def write_embedding(folder: Path, modules: Sequence[str], pooling: Mapping[str, Any]) -> None:
    """Write what sentence-transformers writes beside a model."""
    listed = [{"idx": number, "type": f"sentence_transformers.models.{name}"} for number, name in enumerate(modules)]
    (folder / hub.MODULES).write_text(json.dumps(listed))
    (folder / POOLING).parent.mkdir(exist_ok=True)
    (folder / POOLING).write_text(json.dumps({"word_embedding_dimension": 32, **pooling}))
