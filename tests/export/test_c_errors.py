"""What cannot be written as C, and what is said about it; a layer of the user's own."""

import re
import shutil
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tests.export.conftest import Quantizer
from tests.export.networks import enlarged
from torch import Tensor

from qcapsnets.errors import ExportError, FixedPointError
from qcapsnets.export import export_c, verify
from qcapsnets.export.c import Map, Program, Value, emitters, register_emitter
from qcapsnets.export.c.convolution import observe_map
from qcapsnets.export.c.program import single_map
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import quantize
from qcapsnets.fixedpoint.rounding import register_rounding, roundings
from qcapsnets.models import CapsNet, Conv, ConvCaps, Kind, Layer, RoutedCaps, Site


class MaxPool(Layer):
    """The largest of 2x2 numbers, stored in a place of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.activation = Site(Kind.ACTIVATION, signed=False)

    def compute(self, x: Tensor) -> Tensor:
        output: Tensor = self.activation(F.max_pool2d(x, 2))
        return output


def pooled(images: Tensor, points: str = "max") -> CapsNet:
    torch.manual_seed(2)
    model = enlarged(
        CapsNet(
            {
                "conv": Conv(1, 4, kernel=5),
                "pool": MaxPool(),
                "caps": ConvCaps(4, 2, 4, kernel=5, stride=3),
                "digit": RoutedCaps(18, 4, 10, 4),
            },
            image_shape=(1, 28, 28),
            classes=10,
        )
    )
    calibration = Calibration.record(model, images[:8])
    return quantize(model, Plan.uniform(model, 8), calibration, points=points)  # type: ignore[arg-type]


def emit_pool(layer: MaxPool, name: str, x: Value, program: Program) -> Value:
    """Same format in and out, so that only the largest code is to be found."""
    given, shape = single_map(x, name)
    out = program.codes(layer.activation, Map(shape.channels, shape.height // 2, shape.width // 2))
    fn = program.identifier(name)
    assert given.format == out.format
    observe = observe_map(program, layer.activation, out)
    program.functions.append(f"""/* {name}: the largest of 2x2 */
static void {fn}(void)
{{
    size_t y, x, c, k;
    for (y = 0; y < {shape.height // 2}; y++) {{
        for (x = 0; x < {shape.width // 2}; x++) {{
            for (c = 0; c < {shape.channels}; c++) {{
                {out.ctype} top = 0;
                for (k = 0; k < 4; k++) {{
                    const size_t at = (2 * y + k / 2) * {shape.width} + 2 * x + k % 2;
                    const {given.ctype} code = {given.c}[at * {shape.channels} + c];
                    top = code > top ? code : top;
                }}
                {out.c}[(y * {shape.width // 2} + x) * {shape.channels} + c] = top;
            }}
        }}
    }}
    {observe}
}}
""")
    program.call(f"{fn}();", name, given, out)
    return (out,)


def test_a_layer_without_a_c_form_says_how_to_register_one(images: Tensor, tmp_path: Path) -> None:
    message = r"'pool' is a MaxPool, .*Conv, .*register_emitter\(MaxPool\)"
    with pytest.raises(ExportError, match=message):
        export_c(pooled(images), tmp_path / "c")


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_registered_layer_is_exported_and_verified(
    images: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emitters, "_emitters", dict(emitters._emitters))
    register_emitter(MaxPool)(emit_pool)
    with pytest.raises(ExportError, match="replace=True"):
        register_emitter(MaxPool)(emit_pool)
    result = verify(pooled(images), images[:2], flags="-O0")
    assert result.equal, str(result)
    assert result.sites == 9


def test_a_subclass_is_another_layer(images: Tensor, tmp_path: Path) -> None:
    class Doubled(Conv):
        def compute(self, x: Tensor) -> Tensor:
            return super().compute(x) * 2

    model = CapsNet(
        {"conv": Doubled(1, 2, kernel=9), "digit": RoutedCaps(2, 20, 10, 4)},
        image_shape=(1, 28, 28),
        classes=10,
    )
    with pytest.raises(ExportError, match="Doubled"):
        emitters.emit(model.get_submodule("conv"), "conv", (), Program(1))  # type: ignore[arg-type]


def test_an_inexact_plan_names_the_layer_and_the_reason(
    quantized: Quantizer, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=r"primary\.weights .*need \d+ bits, and 54 .*shorten"):
        export_c(quantized("shallow", 32), tmp_path / "c")
    plan = Plan.uniform(quantized.float_model("shallow"), 8).replacing(routing={"digit": 20})
    with pytest.raises(ExportError, match=r"digit\.coupling .*softmax from s20f.* 64 bits"):
        export_c(quantized("shallow", plan), tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_folder_that_is_not_empty_is_left_alone(quantized: Quantizer, tmp_path: Path) -> None:
    model = quantized("shallow")
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(ExportError, match=f"{re.escape(str(tmp_path))} is not empty"):
        export_c(model, tmp_path)
    with pytest.raises(ExportError, match="is a file"):
        export_c(model, tmp_path / "kept.txt")
    assert (tmp_path / "kept.txt").read_text() == "mine"


def test_a_float_network_is_refused(quantized: Quantizer, tmp_path: Path) -> None:
    with pytest.raises(FixedPointError, match="not quantized"):
        export_c(quantized.float_model("shallow"), tmp_path / "c")


def test_a_scheme_without_a_c_form_is_refused(quantized: Quantizer, tmp_path: Path) -> None:
    register_rounding("secret", lambda q, r, d, u: 4 * r >= d)
    try:
        with pytest.raises(ExportError, match=r"'secret' has no C form: register it with c="):
            export_c(quantized("shallow", 8, "secret"), tmp_path / "c")
    finally:
        roundings._values.pop("secret")


def test_a_network_must_end_in_class_capsules(images: Tensor, tmp_path: Path) -> None:
    model = CapsNet({"caps": ConvCaps(1, 10, 4, kernel=28)}, image_shape=(1, 28, 28), classes=10)
    calibration = Calibration.record(model, images[:4])
    with pytest.raises(ExportError, match="end with a RoutedCaps"):
        export_c(quantize(model, Plan.uniform(model, 8), calibration), tmp_path / "c")


def test_names_of_layers_cannot_leave_their_comment(images: Tensor, tmp_path: Path) -> None:
    model = CapsNet(
        {"a*/ int x; /*": ConvCaps(1, 2, 4, kernel=9, stride=9), "while": RoutedCaps(18, 4, 10, 4)},
        image_shape=(1, 28, 28),
        classes=10,
    )
    calibration = Calibration.record(model, images[:4])
    export_c(quantize(model, Plan.uniform(model, 8), calibration), tmp_path / "c")
    code = (tmp_path / "c" / "model.c").read_text()
    assert "a*/" not in code
    assert "static void l_while_route" in code or "static void while_route" in code
