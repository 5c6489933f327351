"""Models: builders of PyTorch networks, computed as functions of a flat weight vector.

A model is a frozen dataclass whose fields are the arguments of its name (`mlp(200,200)`) and whose `network` builds an
`nn.Module` for samples of a shape. Weights are (d,) for one client, or (k, d) for k clients, which
`trials.models.base.Model` computes at once. A new model is one class of a few lines and one entry of `MODELS`.
"""

from trials.common import names
from trials.common.plugins import named
from trials.models import published
from trials.models.base import Architecture
from trials.models.own import OwnModel

MODELS: dict[str, type[Architecture]] = {
    "logreg": published.LogisticRegression,
    "linear": published.Linear,
    "mlp": published.MLP,
    "lenet5": published.LeNet5,
    "lenet5_fedagg": published.LeNet5FedAgg,
    "mcmahan_cnn": published.McMahanCNN,
    "cifar10_cnn": published.Cifar10CNN,
    "feddc_cnn": published.FedDCCNN,
    "vgg_light": published.VGGLight,
    "char_lstm": published.CharLSTM,
    "sent_lstm": published.SentLSTM,
}


def parse(text: str) -> Architecture:
    """Return the model that `text` names, such as `mlp(200,200)`. Raise `UserError` for an unknown name or a bad argument."""
    if named(text):
        return OwnModel.at(text)
    model: Architecture = names.parse("model", text, MODELS)
    return model


def canonical(text: str) -> str:
    """Return the canonical spelling of a model's name."""
    model = parse(text)
    return model.name if isinstance(model, OwnModel) else names.spell(names.split(text)[0], model)
