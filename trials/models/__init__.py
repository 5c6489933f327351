"""Models as functions of a flat weight vector, written once for one client and for k clients.

A model is a frozen dataclass whose fields are the arguments of its name (`mlp(200,200)`); it states
the shapes of its parameters and a `forward`. Weights are (d,) for one client or (k, d) for k; the
layer functions of `trials.models.base` tell the two apart by the number of dimensions, so that a
forward reads the same for both. A new model is one class and one entry of `MODELS`.
"""

from trials.common import names
from trials.common.errors import UserError
from trials.common.plugins import named
from trials.models.base import Architecture
from trials.models.convolutional import (
    Cifar10CNN,
    FedDCCNN,
    LeNet5,
    LeNet5FedAgg,
    McMahanCNN,
    VGGLight,
)
from trials.models.dense import MLP, Linear, LogisticRegression
from trials.models.own import OwnModel
from trials.models.recurrent import CharLSTM, SentLSTM
from trials.models.vision import VGG11, AlexNet, DenseNet121, GoogLeNet, ResNet18

MODELS: dict[str, type[Architecture]] = {
    "logreg": LogisticRegression,
    "linear": Linear,
    "mlp": MLP,
    "lenet5": LeNet5,
    "lenet5_fedagg": LeNet5FedAgg,
    "mcmahan_cnn": McMahanCNN,
    "cifar10_cnn": Cifar10CNN,
    "feddc_cnn": FedDCCNN,
    "vgg_light": VGGLight,
    "vgg11": VGG11,
    "resnet18": ResNet18,
    "alexnet": AlexNet,
    "googlenet": GoogLeNet,
    "densenet121": DenseNet121,
    "char_lstm": CharLSTM,
    "sent_lstm": SentLSTM,
}


def parse(text: str) -> Architecture:
    """The model a name stands for; raises `UserError` on an unknown name or a bad argument."""
    if named(text):
        return OwnModel.at(text)
    if text.endswith(".py"):
        raise UserError(f"model {text}: name its class or function too, as in {text}:Net")
    model: Architecture = names.parse("model", text, MODELS)
    return model


def canonical(text: str) -> str:
    """The canonical spelling of a model's name."""
    model = parse(text)
    return model.name if isinstance(model, OwnModel) else names.spell(names.split(text)[0], model)
