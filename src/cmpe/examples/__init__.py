"""Models that come with the package, for first steps, the demo and the gallery."""

from __future__ import annotations

from pathlib import Path

from cmpe.errors import InputError

_FOLDER = Path(__file__).parent


def example(name: str) -> Path:
    """The file of an embedded model: `cmpe.read_model(cmpe.example("alarm"))`.

    "alarm": the ALARM network (Beinlich et al. 1989), 37 variables, eight of them diagnoses of a
    patient under anaesthesia.
    """
    known = sorted(file.stem for file in _FOLDER.glob("*.bif"))
    if name not in known:
        raise InputError(f"an example is one of {', '.join(known)}, found {name!r}")
    return _FOLDER / f"{name}.bif"
