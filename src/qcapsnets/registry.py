"""Named things that users can add to: data sets, models, rounding schemes, strategies.

A registry maps a name to a value. Packages outside this one add to it through an entry point in
the registry's group, which is loaded only when its name is first asked for.
"""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from qcapsnets.errors import RegistryError

T = TypeVar("T")


class Registry(Generic[T]):
    """Values by name, in the order in which they were registered."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.group = f"qcapsnets.{kind.replace(' ', '_')}s"
        self._values: dict[str, T] = {}

    def register(self, name: str, value: T, *, replace: bool = False) -> T:
        """Add `value` under `name`; a name that is taken is an error unless `replace` is set."""
        if not replace and name in self:
            raise RegistryError(
                f"{self.kind} {name!r} is registered already: "
                "choose another name, or pass replace=True"
            )
        self._values[name] = value
        return value

    def __getitem__(self, name: str) -> T:
        if name not in self._values:
            point = self._entry_points().get(name)
            if point is None:
                raise RegistryError(f"unknown {self.kind} {name!r}: known are {', '.join(self)}")
            self._values[name] = self._load(point)
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values or name in self._entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._values, *self._entry_points()]))

    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def _load(self, point: EntryPoint) -> T:
        try:
            return cast(T, point.load())
        except Exception as error:  # whatever a stranger's module raises on import
            raise RegistryError(
                f"{self.kind} {point.name!r} cannot be loaded from {point.value!r}: {error}"
            ) from error
