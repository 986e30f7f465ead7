"""One root error, and a subclass for each stage.

A message says what was given, what is allowed and what to do, in one line. The command line
prints that line and exits with 2; a traceback is a bug.
"""


class QCapsNetsError(Exception):
    """Anything that a user can mend."""


class RegistryError(QCapsNetsError):
    """A name that is not registered, or is registered twice."""


class DataError(QCapsNetsError):
    """A data set that is missing, broken or does not fit."""


class ModelError(QCapsNetsError):
    """A network that cannot be built, or that does not fit its input."""


class TrainingError(QCapsNetsError):
    """A training that cannot start or go on."""


class FixedPointError(QCapsNetsError):
    """A number format, a rounding scheme or a quantization that cannot be."""


class EvaluationError(QCapsNetsError):
    """Something that cannot be measured."""


class SearchError(QCapsNetsError):
    """A search that cannot start or go on."""


class ExportError(QCapsNetsError):
    """A model that cannot be written, or a packed file that cannot be read."""


class ReportError(QCapsNetsError):
    """A run that cannot be shown."""
