"""Models of libraries: names, folders of small ones of Transformers, and the libraries without their hub."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from servemark.hub.blocks.sentences import MODULES, POOLING
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

    config, network, sizes = FOLDERS[name]
    torch.manual_seed(0)
    model = getattr(transformers, network)(getattr(transformers, config)(**sizes))
    model.save_pretrained(at / name)
    if name == "sentences":
        write_embedding(at / name, ["Transformer", "Pooling", "Normalize"], {"pooling_mode_mean_tokens": True})
    return at / name


def write_embedding(folder: Path, modules: Sequence[str], pooling: Mapping[str, Any]) -> None:
    """Write what sentence-transformers writes beside a model."""
    listed = [{"idx": number, "type": f"sentence_transformers.models.{name}"} for number, name in enumerate(modules)]
    (folder / MODULES).write_text(json.dumps(listed))
    (folder / POOLING).parent.mkdir(exist_ok=True)
    (folder / POOLING).write_text(json.dumps({"word_embedding_dimension": 32, **pooling}))
