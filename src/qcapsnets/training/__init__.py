"""Training: margin loss, a plain loop, checkpoints that survive any kill."""

from qcapsnets.training.batches import fingerprint
from qcapsnets.training.loop import Progress, TrainingResult, train
from qcapsnets.training.losses import HARD_MARGIN, MARGIN, MarginLoss, reconstruction_loss
from qcapsnets.training.measure import accuracy, predict
from qcapsnets.training.recipe import Recipe

__all__ = [
    "HARD_MARGIN",
    "MARGIN",
    "MarginLoss",
    "Progress",
    "Recipe",
    "TrainingResult",
    "accuracy",
    "fingerprint",
    "predict",
    "reconstruction_loss",
    "train",
]
