"""Published configurations of Transformers, for when the hub cannot be reached."""

from typing import Any

from servemark.hub.blocks.sentences import Embedding

LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
"""BERT-large's layers, which many others have."""
KNOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "google-bert/bert-base-uncased": ("bert", {}),
    "google-bert/bert-large-uncased": ("bert", LARGE),
    "google-bert/bert-large-uncased-whole-word-masking-finetuned-squad": (
        "bert",
        LARGE | {"architectures": ["BertForQuestionAnswering"]},
    ),
    "FacebookAI/roberta-base": (
        "roberta",
        {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1},
    ),
    "FacebookAI/roberta-large": (
        "roberta",
        LARGE | {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1},
    ),
    "distilbert/distilbert-base-uncased": ("distilbert", {}),
    "microsoft/deberta-v3-base": (
        "deberta-v2",
        {
            "vocab_size": 128100,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "position_biased_input": False,
            "max_relative_positions": -1,
            "type_vocab_size": 0,
        },
    ),
    "sentence-transformers/all-MiniLM-L6-v2": (
        "bert",
        {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    ),
    "sentence-transformers/all-mpnet-base-v2": ("mpnet", {"max_position_embeddings": 514}),
    "google/vit-base-patch16-224": ("vit", {"num_labels": 1000}),
    "openai/clip-vit-base-patch32": ("clip", {}),
    "openai/clip-vit-large-patch14": (
        "clip",
        {
            "projection_dim": 768,
            "text_config": {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
            "vision_config": LARGE | {"patch_size": 14},
        },
    ),
    "facebook/detr-resnet-50": ("detr", {"num_labels": 91}),
    "nvidia/segformer-b0-finetuned-ade-512-512": ("segformer", {"num_labels": 150, "image_size": 512}),
    "nvidia/segformer-b2-finetuned-ade-512-512": (
        "segformer",
        {"hidden_sizes": [64, 128, 320, 512], "depths": [3, 4, 6, 3], "decoder_hidden_size": 768}
        | {"num_labels": 150, "image_size": 512},
    ),
    "facebook/wav2vec2-base-960h": ("wav2vec2", {}),
    "facebook/wav2vec2-large-960h": ("wav2vec2", LARGE),
    "openai/whisper-tiny": ("whisper", {}),
    "openai/whisper-small": (
        "whisper",
        {"d_model": 768, "encoder_layers": 12, "encoder_attention_heads": 12, "encoder_ffn_dim": 3072}
        | {"decoder_layers": 12, "decoder_attention_heads": 12, "decoder_ffn_dim": 3072},
    ),
    "openai/whisper-large-v3": (
        "whisper",
        {"d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120}
        | {"decoder_layers": 32, "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "num_mel_bins": 128}
        | {"vocab_size": 51866},
    ),
    "google-t5/t5-small": ("t5", {}),
    "google-t5/t5-base": ("t5", {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}),
}
"""By name on the hub: the configuration's `model_type`, and its changes of that class's defaults."""
SENTENCES = dict.fromkeys(
    ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-mpnet-base-v2"),
    Embedding("mean", normalised=True),
)
"""Of these, the models that embed sentences."""
