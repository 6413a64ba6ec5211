"""Models that are served today: ten kinds, in two sizes each.

They are chosen by task and by downloads from Hugging Face's hub. Of 50 owners, text encoders made up more than 45 % of
all downloads, pictures 21 %, sound 15 % ("Model statistics of the 50 most downloaded entities on Hugging Face", October
2025). In the snapshot of 28 June 2026 of the data set datamatastudios/ai-model-popularity, all-MiniLM-L6-v2 leads with
246 million; among the next are bert-base-uncased (60), all-mpnet-base-v2 (34), clip-vit-base-patch32 (23) and
mobilenetv3_small_100 (21). ResNet, ViT, RoBERTa and Wav2Vec2 are the most downloaded kinds in the weekly tables of 2023
that the hub has published (huggingface/transformers-stats-space-data). Whisper and SegFormer stand for their tasks.
"""

LABEL = "today"
MODELS = {
    "sentence embedding": (
        "transformers/sentence-transformers/all-MiniLM-L6-v2",
        "transformers/sentence-transformers/all-mpnet-base-v2",
    ),
    "BERT": ("transformers/google-bert/bert-base-uncased", "transformers/google-bert/bert-large-uncased"),
    "RoBERTa": ("transformers/FacebookAI/roberta-base", "transformers/FacebookAI/roberta-large"),
    "CLIP": ("transformers/openai/clip-vit-base-patch32", "transformers/openai/clip-vit-large-patch14"),
    "ViT": ("timm/vit_tiny_patch16_224", "timm/vit_base_patch16_224"),
    "MobileNetV3": ("timm/mobilenetv3_small_100", "timm/mobilenetv3_large_100"),
    "ResNet": ("timm/resnet18", "timm/resnet50"),
    "Wav2Vec2": ("transformers/facebook/wav2vec2-base-960h", "transformers/facebook/wav2vec2-large-960h"),
    "Whisper's encoder": ("transformers/openai/whisper-tiny", "transformers/openai/whisper-small"),
    "SegFormer": (
        "transformers/nvidia/segformer-b0-finetuned-ade-512-512",
        "transformers/nvidia/segformer-b2-finetuned-ade-512-512",
    ),
}
"""A small and a large one of each kind."""
WORKLOADS = tuple(name for sizes in MODELS.values() for name in sizes)
