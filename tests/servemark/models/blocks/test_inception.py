"""Inception-v3 against torchvision's, with its weights."""

import torch
from torchvision.models import Inception3

from servemark.models.blocks.inception import WIDTH, inception_v3
from servemark.models.blocks.weights import calibrate, he


def test_features_are_torchvision_s() -> None:
    """All parameters in their order; theirs has a classifier beside."""
    torch.manual_seed(0)
    images = torch.randn(2, 3, 107, 75)
    reference = Inception3(aux_logits=False, init_weights=False)
    reference.fc = torch.nn.Identity()
    he(reference)
    calibrate(reference, images)
    model = inception_v3().eval()
    model.load_state_dict(dict(zip(model.state_dict(), reference.state_dict().values(), strict=True)))
    with torch.no_grad():
        features = model(images)
        torch.testing.assert_close(features, reference(images))
    assert features.shape == (2, WIDTH)
    assert features.std() > 0.1
