"""The JSON card beside every model: what it is, what it takes and gives, and the thresholds that hold for it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from voiceid.errors import ModelError
from voiceid.file_kind import FileKind, this_is
from voiceid.regular_file import read_regular
from voiceid.tables import Finite, from_table, unique_keys

SCHEMA = 1
MAX_CARD = 1 << 20
"""Bytes of a card; the longest is a hundredth of it."""

Role = Literal["identity", "spoofing", "liveness", "fusion", "units", "guard", "resynthesis", "words"]
ROLES: tuple[Role, ...] = ("identity", "spoofing", "liveness", "fusion", "units")
"""Roles that are always filled on a device."""
OPTIONAL_ROLES: tuple[Role, ...] = ("guard",)
"""Roles of the pipeline that may be left empty; of the others, a command loads the model when it is asked for it.

The role words is a service provider's, see :mod:`voiceid.understanding`.
"""
OPERATING_POINTS = ("convenience", "balanced", "strict")
Dimension = int | str
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Calibration:
    """Affine map from a raw score to a natural-log likelihood ratio: ``llr = scale * raw + offset``."""

    scale: Annotated[float, Finite()]
    offset: Annotated[float, Finite()]
    calibration_set: str
    """What it was fitted on, in words, with trial counts."""

    def __call__(self, raw: float) -> float:
        return self.scale * raw + self.offset


@dataclass(frozen=True, slots=True)
class Threshold:
    """The least calibrated score (llr; for fusion: probability) that passes, and what it was set to achieve."""

    value: Annotated[float, Finite()]
    operating_point: str
    """In words, for example 'BPCER 1.0 % on 812 development utterances'."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """One source of training data."""

    name: str
    licence: str
    amount: str


@dataclass(frozen=True, slots=True)
class Card:
    """A model card; ``path`` is where it was read from."""

    schema: int
    name: str
    role: Role
    version: str
    description: str
    file: str
    """ONNX file, relative to the card."""
    sha256: str
    inputs: dict[str, list[Any]]
    """Name to shape; a string stands for a free dimension."""
    outputs: dict[str, list[Any]]
    sample_rate: int
    frontend: str
    """What the first input is: 'waveform', 'deep-speaker-fbank', 'log-mel', 'void-97', 'llr-3', 'units'."""
    level_dbfs: float | None
    """Level policy the model expects (None: as captured)."""
    min_seconds: float
    window_seconds: float | None
    """Fixed input length; None where any length is taken."""
    calibration: Calibration | None
    thresholds: dict[str, Threshold]
    """By operating point: convenience, balanced, strict."""
    training_data: list[TrainingData]
    metrics: dict[str, Any]
    command: str
    """The command that made the model."""
    licence: str
    parameters: dict[str, Any] = field(default_factory=dict)
    """Further numbers of the role: documented where they are used."""
    assets: dict[str, str] = field(default_factory=dict)
    """Further files the role needs (such as a score-normalisation cohort), relative to the card, with their sha256."""

    def threshold(self, operating_point: str) -> float:
        """The threshold at ``operating_point``.

        Raises:
            ModelError: the card has none.
        """
        try:
            return self.thresholds[operating_point].value
        except KeyError:
            raise ModelError(
                f"card {self.name!r} has no threshold for operating point {operating_point!r}; "
                f"it has {', '.join(sorted(self.thresholds)) or 'none'}"
            ) from None

    def parameters_as(self, cls: type[T]) -> T:
        """The parameters that dataclass ``cls`` has fields for; whatever else the card states is left alone.

        Raises:
            ModelError: one is missing, or of another type or range.
        """
        named = {f.name for f in fields(cls)}  # type: ignore[arg-type]
        table = {name: value for name, value in self.parameters.items() if name in named}
        return from_table(cls, table, where=f"card {self.name!r}: parameters", error=ModelError)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read_card(path: Path) -> Card:
    """Read and check a card.

    Raises:
        ModelError: missing, not JSON, unknown or missing keys, wrong types, or a schema from a newer version.
    """
    try:
        data = read_regular(path, MAX_CARD)
        if other := this_is(data, FileKind.CARD):
            raise ModelError(f"{path}: not a model card{other}")
        table = json.loads(data, object_pairs_hook=unique_keys)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such model card; run 'voiceid models list' to see what is installed") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not a readable model card ({error})") from error
    if isinstance(table, dict) and isinstance(table.get("schema"), int) and table["schema"] > SCHEMA:
        raise ModelError(f"{path}: card schema {table['schema']} is newer than this version knows ({SCHEMA}); upgrade")
    card = from_table(Card, table, where=str(path), error=ModelError)
    for name in (card.file, *card.assets):
        if not name or Path(name).name != name or not name.isprintable():
            raise ModelError(f"{path}: model files must lie beside their card and have printable names, found {name!r}")
    return card
