"""PACK.json with numbers that no machine word holds, or keys that nothing reads, is refused."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intnet.errors import IntnetError, PackError
from intnet.packs import check, export, layers, pack, sizes, units
from intnet.packs.by_spec.recompute import recompute
from intnet.packs.layouts import Choice, laid_out
from intnet.packs.tiles import tiled
from intnet.packs.units.signals import Range
from intnet.runs import run_folder
from tests.support.forging import seal

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


def refused(folder: Path, manifest: Any) -> str:
    """What `read` says of a PACK.json with its hash written anew."""
    path = folder / "PACK.json"
    whole = path.read_text()
    try:
        path.write_text(json.dumps(manifest))
        seal(folder)
        with pytest.raises(PackError) as error:
            pack.read(folder)
        return str(error.value)
    finally:
        path.write_text(whole)
        seal(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["layers", "unit"])
def test_a_number_out_of_its_range_is_named_before_anything_is_made_of_it(
    kind: str, folders: dict[str, Path]
) -> None:
    """One place of each sort of number that has a range, one beyond either end of it and far beyond."""
    manifest = json.loads((folders[kind] / "PACK.json").read_text())
    met = set()
    for at in places(manifest):
        key = next(part for part in reversed(at) if isinstance(part, str))
        sort = tuple(part for part in at if isinstance(part, str))
        if key not in sizes.RANGES or sort in met:
            continue
        met.add(sort)
        low, high = sizes.RANGES[key]
        for number in (low - 1, high + 1, 1 << 62, -(1 << 62)):
            damaged = json.loads(json.dumps(manifest))
            put(damaged, at, number)
            said = refused(folders[kind], damaged)
            assert "PACK.json" in said and f"is {number}: it is a number from {low} to {high}" in said
    assert len(met) >= {"layers": 12, "unit": 1}[kind]


@pytest.mark.slow
def test_a_large_image_a_large_port_and_a_deep_list_are_refused(folders: dict[str, Path]) -> None:
    whole = (folders["layers"] / "PACK.json").read_text()
    manifest = json.loads(whole)
    put(manifest, ("generator", "image_shape"), [4096, 4096, 64])
    assert "an image has at most 1,048,576 elements" in refused(folders["layers"], manifest)
    manifest = json.loads((folders["unit"] / "PACK.json").read_text())
    put(manifest, ("ports", 0, "shape"), [1 << 62])
    put(manifest, ("ports", 0, "words"), 1 << 62)
    assert "x.hex" in refused(folders["unit"], manifest)
    for depth in range(50, 2000, 50):
        manifest = json.loads(whole)
        manifest["about"]["deep"] = json.loads("[" * 40 + "]" * 40)
        text = json.dumps(manifest).replace("[" * 40 + "]" * 40, "[" * depth + "]" * depth)
        path = folders["layers"] / "PACK.json"
        try:
            path.write_text(text)
            seal(folders["layers"])
            pack.read(folders["layers"])
        except PackError as error:
            assert "nested too deeply" in str(error)
        finally:
            path.write_text(whole)
            seal(folders["layers"])
    assert depth > 1000


@pytest.mark.slow
@pytest.mark.parametrize("number", [-(1 << 62), -1, 1 << 20, 1 << 62])
def test_no_parameter_of_a_unit_is_beyond_its_range(number: int, tmp_path: Path) -> None:
    """The definition shifts by them: out of their ranges nothing is run."""
    for name, unit in units.UNITS.items():
        folder = pack.write(units.draft(name, "L0", {}), tmp_path / name)
        path = folder / "PACK.json"
        whole = json.loads(path.read_text())
        for key, range_ in unit.parameters.items():
            if isinstance(range_, Range) and range_.least <= number <= range_.most:
                continue
            manifest = json.loads(json.dumps(whole))
            put(manifest, ("about", "unit", "parameters", key), number)
            path.write_text(json.dumps(manifest))
            seal(folder)
            held = pack.read(folder)
            for run in (check.recompute, recompute):
                with pytest.raises(IntnetError, match=rf"{key}.*{number}|{number}.*{key}"):
                    run(held)
        shutil.rmtree(folder)


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
