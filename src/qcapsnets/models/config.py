"""What every network's configuration has: the images, the classes, and whole positive sizes."""

from dataclasses import dataclass, fields

from qcapsnets.errors import ModelError


@dataclass(frozen=True)
class Config:
    """Square images of `size` with `channels`, into `classes`."""

    size: int = 28
    channels: int = 1
    classes: int = 10

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is int and (type(value) is not int or value < 1):
                raise ModelError(
                    f"{field.name} was given as {value!r}: it must be a whole number from 1 up"
                )
            if field.type is bool and type(value) is not bool:
                raise ModelError(f"{field.name} was given as {value!r}: it must be true or false")

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        return self.channels, self.size, self.size
