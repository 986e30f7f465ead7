"""Compose a capsule network, train it briefly, and search its wordlengths."""

import sys
from pathlib import Path

from qcapsnets import data, framework, models, training
from qcapsnets.search import Serial, Settings, Tolerance


@models.register("my-caps")
def my_caps(classes: int = 10) -> models.CapsNet:
    layers = {
        "conv": models.Conv(1, 16, kernel=9),
        "caps": models.ConvCaps(16, capsules=4, dimension=8, kernel=9, stride=3),
        "digit": models.RoutedCaps(4 * 4 * 4, 8, outputs=classes, dimension=8),
    }
    return models.CapsNet(layers, image_shape=(1, 28, 28), classes=classes)


def main(folder: Path) -> None:
    splits = data.load("mnist-mini")
    model = models.build("my-caps")
    recipe = training.Recipe(epochs=2, batch_size=50, learning_rate=0.005, reconstruction=0.0)
    print(training.train(model, splits, recipe, folder))
    settings = Settings(Tolerance(0.01), budget=400_000, roundings=("nearest",))
    result = framework.run(model, splits, settings, folder, executor=Serial())
    print(result.verdict)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/my-caps"))
