"""Which device a number stands for under masks and selectors, and why there is none."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from launch.masks import Physical, narrowed, no_level_zero, physical

FLAT = {"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}
COMPOSITE = {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}


# --- which device a number stands for ---


@pytest.mark.parametrize(
    ("number", "env", "device", "card", "tile"),
    [
        ("5", FLAT, "5", 2, 1),
        ("5", {}, "5", 2, 1),
        ("5", {"ZE_AFFINITY_MASK": ""}, "5", 2, 1),
        ("5", {**COMPOSITE}, "5", 5, 0),
        ("5.1", {**COMPOSITE}, "5.1", 5, 1),
        ("5", {**FLAT, "ONEAPI_DEVICE_SELECTOR": "opencl:gpu;level_zero:gpu"}, "5", 2, 1),
        ("5", {**FLAT, "ONEAPI_DEVICE_SELECTOR": "*:gpu;!opencl:*"}, "5", 2, 1),
        # masks: their order counts for nothing, and what is out of range comes last
        ("0", {**FLAT, "ZE_AFFINITY_MASK": "3,1"}, "1", 0, 1),
        ("1", {**FLAT, "ZE_AFFINITY_MASK": "3,1"}, "3", 1, 1),
        ("0", {**FLAT, "ZE_AFFINITY_MASK": "99,7"}, "7", 3, 1),
        ("0", {"ZE_AFFINITY_MASK": "0.1,7"}, "7", 3, 1),
        ("0", {**COMPOSITE, "ZE_AFFINITY_MASK": "3.1"}, "3.1", 3, 1),
        ("1", {**COMPOSITE, "ZE_AFFINITY_MASK": "2.0,2.1,5"}, "5", 5, 0),
        ("1.1", {**COMPOSITE, "ZE_AFFINITY_MASK": "2.0,2.1,5"}, "5.1", 5, 1),
        ("0", {**COMPOSITE, "ZE_AFFINITY_MASK": "2.0,2.1,5"}, "2", 2, 0),
        ("0.1", {**COMPOSITE, "ZE_AFFINITY_MASK": "2.3,2.1,5"}, "2.3", 2, 3),
        # selectors count what the mask has left
        ("0", {**FLAT, "ONEAPI_DEVICE_SELECTOR": "level_zero:3"}, "3", 1, 1),
        ("1", {**FLAT, "ONEAPI_DEVICE_SELECTOR": "opencl:cpu;level_zero:4,2"}, "4", 2, 0),
        ("0", {**FLAT, "ONEAPI_DEVICE_SELECTOR": "level_zero:1", "ZE_AFFINITY_MASK": "4,6,8"}, "6", 3, 0),
        ("0", {**COMPOSITE, "ONEAPI_DEVICE_SELECTOR": "level_zero:4.1"}, "4.1", 4, 1),
        (
            "0",
            {**COMPOSITE, "ONEAPI_DEVICE_SELECTOR": "level_zero:1.0", "ZE_AFFINITY_MASK": "4,6"},
            "6.0",
            6,
            0,
        ),
    ],
)
def test_a_device_is_known_by_its_number_without_mask_and_selector(
    number: str, env: dict[str, str], device: str, card: int, tile: int
) -> None:
    assert physical(f"level_zero:gpu:{number}", env) == Physical(f"level_zero:gpu:{device}", card, tile)


@pytest.mark.parametrize(
    "env",
    [
        {"ZE_AFFINITY_MASK": "what"},
        {**FLAT, "ZE_AFFINITY_MASK": "0.1"},
        {"ONEAPI_DEVICE_SELECTOR": "level_zero:0.*"},
        {"ONEAPI_DEVICE_SELECTOR": "level_zero:0.0,0.1"},
        {"ONEAPI_DEVICE_SELECTOR": "level_zero:gpu;!level_zero:0"},
    ],
)
def test_what_is_not_understood_is_part_of_the_name(env: dict[str, str]) -> None:
    name = physical("level_zero:gpu:0", env).name
    assert name.startswith("level_zero:gpu:0 (")
    assert all(f"{k}={v}" in name for k, v in env.items() if k != "ZE_FLAT_DEVICE_HIERARCHY")


@given(st.sets(st.integers(0, 11), min_size=1), st.randoms())
def test_two_masks_name_the_same_device_alike(tiles: set[int], random: object) -> None:
    order = sorted(tiles)
    random.shuffle(order)  # type: ignore[attr-defined]
    env = {**FLAT, "ZE_AFFINITY_MASK": ",".join(map(str, order))}
    masked = [physical(f"level_zero:gpu:{n}", env) for n in range(len(tiles))]
    assert masked == [physical(f"level_zero:gpu:{tile}", FLAT) for tile in sorted(tiles)]


@pytest.mark.parametrize(
    ("env", "text"),
    [
        (FLAT, ""),
        ({"ZE_AFFINITY_MASK": "", "ONEAPI_DEVICE_SELECTOR": "opencl:gpu;level_zero:gpu"}, ""),
        ({"ZE_AFFINITY_MASK": "2,3", "ONEAPI_DEVICE_SELECTOR": "level_zero:gpu"}, "2,3"),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:4,5"}, "level_zero:4,5"),
        ({"ZE_AFFINITY_MASK": "2,3", "ONEAPI_DEVICE_SELECTOR": "level_zero:1"}, "2,3; level_zero:1"),
    ],
)
def test_only_what_names_devices_narrows_the_view(env: dict[str, str], text: str) -> None:
    assert narrowed(env) == text


# --- why no GPU is visible ---


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, ["neither ONEAPI_DEVICE_SELECTOR nor ZE_AFFINITY_MASK", "--device cpu"]),
        ({"ZE_AFFINITY_MASK": "", "ONEAPI_DEVICE_SELECTOR": ""}, ["neither", "--device cpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:gpu;level_zero:gpu"}, ["neither", "--device cpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "!opencl:*"}, ["neither"]),
        ({"ONEAPI_DEVICE_SELECTOR": "*:0"}, ["neither"]),
        # the selector
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:cpu:0"}, ["='opencl:cpu:0'", "dpctl filter", "level_zero:gpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:gpu:3"}, ["dpctl filter", "'level_zero:3'"]),
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}, ["='opencl:cpu'", "leaves out", "level_zero:gpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "*:cpu"}, ["='*:cpu'", "leaves out"]),
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:gpu"}, ["leaves out"]),
        ({"ONEAPI_DEVICE_SELECTOR": "Level_Zero:CPU"}, ["leaves out"]),
        ({"ONEAPI_DEVICE_SELECTOR": "gpu"}, ["='gpu'", "names no backend", "level_zero:gpu"]),
        ({"ONEAPI_DEVICE_SELECTOR": "!*:gpu"}, ["excludes", "'!'"]),
        ({"ONEAPI_DEVICE_SELECTOR": "*:*;!level_zero:*"}, ["excludes"]),
        (
            {"ONEAPI_DEVICE_SELECTOR": "level_zero:3", "ZE_AFFINITY_MASK": "3"},
            ["='level_zero:3'", "ZE_AFFINITY_MASK='3'", "counted from 0 again", "unset ZE_AFFINITY_MASK"],
        ),
        # the mask, in each hierarchy
        (
            {"ZE_AFFINITY_MASK": "2.1", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"},
            ["='2.1'", "ZE_FLAT_DEVICE_HIERARCHY=FLAT", "ZE_AFFINITY_MASK='5'"],
        ),
        (
            {"ZE_AFFINITY_MASK": "0.0,5.1", "ZE_FLAT_DEVICE_HIERARCHY": "COMBINED"},
            ["ZE_FLAT_DEVICE_HIERARCHY=COMBINED", "ZE_AFFINITY_MASK='0,11'"],
        ),
        ({"ZE_AFFINITY_MASK": "2.1"}, ["(unset)", "the driver takes FLAT", "ZE_AFFINITY_MASK='5'"]),
        (
            {"ZE_AFFINITY_MASK": "2.1", "ZE_FLAT_DEVICE_HIERARCHY": "composite"},
            ["ZE_FLAT_DEVICE_HIERARCHY=composite, for which the driver takes FLAT"],
        ),
        (
            {"ZE_AFFINITY_MASK": "12", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"},
            ["='12'", "ZE_FLAT_DEVICE_HIERARCHY=FLAT", "0 to 11", "unset ZE_AFFINITY_MASK"],
        ),
        (
            {"ZE_AFFINITY_MASK": "7", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
            ["='7'", "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE", "0.0 to 5.1", "ZE_AFFINITY_MASK='3.1'"],
        ),
        (
            {"ZE_AFFINITY_MASK": "6.0", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
            ["='6.0'", "0.0 to 5.1", "unset"],
        ),
        ({"ZE_AFFINITY_MASK": "level_zero:3"}, ["='level_zero:3'", "no list of device numbers", "'0,1'"]),
        # both are wrong: the selector first
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:cpu", "ZE_AFFINITY_MASK": "2.1"}, ["leaves out"]),
    ],
)
def test_the_reason_names_the_variable_the_value_and_the_right_form(
    env: dict[str, str], words: list[str]
) -> None:
    sentence = no_level_zero(env)
    assert [word for word in words if word not in sentence] == []
    assert sentence.endswith(".")


VARIABLES = ["ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY"]


@given(st.dictionaries(st.sampled_from(VARIABLES), st.text("level_zrogpu*!:;,.012 ")))
def test_there_is_a_reason_whatever_the_variables_hold(env: dict[str, str]) -> None:
    for device in ("level_zero:gpu:0", "level_zero:gpu:0.1"):
        assert physical(device, env).name.startswith("level_zero:gpu:")
    assert no_level_zero(env).endswith(".")
