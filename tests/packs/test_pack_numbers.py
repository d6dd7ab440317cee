"""PACK.json with numbers that no machine word holds, or keys that nothing reads, is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intnet.errors import IntnetError, PackError
from intnet.packs import check, export, layers, pack, units
from intnet.packs.layouts import Choice, laid_out
from intnet.packs.tiles import tiled
from intnet.runs import run_folder
from tests.packs.test_pack import seal

LARGE = [(1 << 63) - 1, -(1 << 63), 1 << 62, 1 << 40, -1, 0]


def places(value: Any, at: tuple = ()) -> Iterator[tuple]:
    """The place of every number in JSON."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*at, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at


def put(manifest: Any, at: tuple, number: object) -> None:
    for key in at[:-1]:
        manifest = manifest[key]
    manifest[at[-1]] = number


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("packs")
    run = run_folder.build("wageubn", {}, "mlp", "digits", batch_size=2)
    fc2 = tiled(layers.draft(run, ["fc2"]), {"x1": 32})
    return {
        "layers": pack.write(laid_out(fc2, Choice("nc/6hw6", 6, 32)), root / "layers"),
        "unit": pack.write(units.draft("quantize_cq", "L0", {}), root / "unit"),
    }


def used(folder: Path, out: Path) -> None:
    """All that reads a pack; what runs a model again takes its sizes as they are."""
    held = pack.read(folder)
    check.check_dut(held, folder / "exp")
    for name in held:
        held[name]
    for kind in (*export.KINDS, export.IMAGE):
        export.write(held, kind, out / kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["layers", "unit"])
@pytest.mark.parametrize("seed", range(10))
def test_any_number_of_64_bits_is_refused_or_harmless(
    kind: str, seed: int, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Every error is one for people: no number reaches arithmetic that it breaks."""
    source, path = random.Random(seed), folders[kind] / "PACK.json"
    whole = path.read_text()
    every = list(places(json.loads(whole)))
    try:
        for k, at in enumerate(source.sample(every, min(8, len(every)))):
            manifest = json.loads(whole)
            put(manifest, at, source.choice(LARGE))
            path.write_text(json.dumps(manifest))
            seal(folders[kind])
            try:
                used(folders[kind], tmp_path / str(k))
            except IntnetError as error:
                assert str(error)
    finally:
        path.write_text(whole)
        seal(folders[kind])


@pytest.mark.slow
@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 1 << 64, 10**30, float("inf"), float("nan")])
def test_a_number_past_64_bits_is_named_wherever_it_stands(number: object, folders: dict[str, Path]) -> None:
    path = folders["layers"] / "PACK.json"
    whole = path.read_text()
    every = list(places(json.loads(whole)))
    try:
        for at in every[:: max(1, len(every) // 60)]:
            if at[-1] == "seed":
                continue
            manifest = json.loads(whole)
            put(manifest, at, number)
            path.write_text(json.dumps(manifest))
            with pytest.raises(PackError, match=r"PACK\.json.* (is|of version) ") as error:
                pack._manifest(path)
            assert str(error.value).count(str(path)) == 1
    finally:
        path.write_text(whole)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ((), "PACK.json has a key 'extra'; there are only format, format_version, definition"),
        (("ports", 0), r"PACK.json\['ports'\]\[0\] has a key 'extra'; there are only name, file"),
        (("ports", 0, "format"), "format does not fit its other fields"),
    ],
)
def test_a_key_that_nothing_reads_is_refused(at: tuple, message: str, tmp_path: Path) -> None:
    folder = pack.write(units.draft("quantize_q", "L0", {}), tmp_path / "p")
    path = folder / "PACK.json"
    manifest = json.loads(path.read_text())
    if at[-1:] == ("format",):
        at = ("ports", next(k for k, port in enumerate(manifest["ports"]) if port["format"]), "format")
    put(manifest, (*at, "extra"), 1)
    path.write_text(json.dumps(manifest))
    seal(folder)
    with pytest.raises(PackError, match=message):
        pack.read(folder)


@pytest.mark.parametrize("where", ["generator", "about"])
def test_a_key_that_made_no_pack_is_a_difference(where: str, tmp_path: Path) -> None:
    folder = pack.write(units.draft("quantize_q", "L0", {}), tmp_path / "p")
    path = folder / "PACK.json"
    manifest = json.loads(path.read_text())
    manifest[where]["extra"] = 1
    path.write_text(json.dumps(manifest))
    seal(folder)
    result = check.recompute(pack.read(folder))
    assert result.exit_status == 1 and any(f"PACK.json: {where}" in problem for problem in result.problems)
