# SPDX-License-Identifier: Apache-2.0
"""Ethos-U as a vendor: regions as TensorFlow Lite sees them, their streams as the driver does."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import harness
import merged
import numpy as np
import pytest

from aot.api import compile_to
from aot.cli import main as aotc
from aot.errors import AotError, UsageError
from aot.options import Options
from aot.tools.run import execute, open_out, timed
from aot.vendor.ethos_u import backend, configs
from aot.vendor.ethos_u.tflite import Network
from aot.vendor.ethos_u.vela import VelaError, worker
from aot.vendor.find import backends_for
from corpus_models import tflite_outputs
from needs import need_module
from quant_graphs import Net, quantised_values

FULL = bool(os.environ.get("AOT_FULL"))
#: Networks of MLPerf Tiny whose stored results are TensorFlow Lite's.
TINY = ("ad", "ic", "kws", "sww", "vww") if FULL else ("kws",)
NPUS = ("u55-128", "u55-256", "u65-512", "u85-256") if FULL else ("u55-128",)
#: Patterns whose results portable C and TensorFlow Lite may round apart by one: these come from a
#: table of 256 rounded real numbers here, from fixed point there.
APART = {"qunary": 1, "qbilinear": 1}


@pytest.fixture(autouse=True)
def vela() -> None:
    need_module("ethosu")


def interpreted(network: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a region's network by TensorFlow Lite's reference kernels, by their names in
    the model, as the inputs."""
    module = need_module("ai_edge_litert.interpreter")
    kernels = module.OpResolverType.BUILTIN_REF
    run = module.Interpreter(str(network), experimental_op_resolver_type=kernels)
    run.allocate_tensors()
    ends = json.loads(network.with_suffix(".json").read_text())
    for value, tensor in zip(ends["inputs"], run.get_input_details(), strict=True):
        array = feeds[value["name"]]
        stored = np.moveaxis(array, 1, -1) if value["channels_last"] else array
        run.set_tensor(tensor["index"], stored.reshape(tensor["shape"]))
    run.invoke()
    results = {}
    for value, tensor in zip(ends["outputs"], run.get_output_details(), strict=True):
        array = run.get_tensor(tensor["index"])
        results[value["name"]] = np.moveaxis(array, -1, 1) if value["channels_last"] else array
    return results


def built(out: Path, *options: str) -> None:
    """Configure and build the bundle in OUT."""
    strict = ["-DAOT_WERROR=ON", *options]
    for command in (["-S", out / "bundle", "-B", out, *strict], ["--build", out]):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def parts() -> list[merged.Part]:
    """The cases of the vendor's patterns that it takes, of int8."""
    need_module("ethosu")
    found = []
    for job in harness.collect(patterns=backend.patterns):
        assert job.model is not None and not job.error, job.error
        given = harness.feeds(job.model, job.case)
        part = merged.Part(job.label, job.model, given, job.want, job.case)
        if all(a.dtype == np.int8 for a in (*given.values(), *job.want)):
            part.taken = merged.taken_by(part, "ethos_u")
        found += [part] if part.taken else []
    return found


def test_every_pattern_has_a_case(parts: list[merged.Part]) -> None:
    moving = {"qreshape", "qtranspose"}  # taken beside layers only: networks have them
    assert {t for part in parts for t in part.taken} == {p.name for p in backend.patterns} - moving


def test_the_bits_of_tflite(parts: list[merged.Part], tmp_path: Path) -> None:
    """What stands in for a region computes what TensorFlow Lite computes of the region's file."""
    model, arrays = merged.merge(parts)
    options = Options(name="net", backends=("ethos_u",), requant="tflite")
    compile_to(model, tmp_path, options, configure=False)
    built(tmp_path)
    got = dict(
        zip(
            (v.name for v in model.graph.output),
            execute(open_out(tmp_path), arrays),
            strict=True,
        )
    )
    feeds = {v.name: a for v, a in zip(model.graph.input, arrays, strict=True)}
    theirs: dict[str, np.ndarray] = {}
    for network in (tmp_path / "bundle" / "ethos_u").glob("*.tflite"):
        theirs |= interpreted(network, feeds)
    wrong = []
    for number, part in enumerate(parts):
        for name in (f"p{number}_{v.name}" for v in part.model.graph.output):
            ours, other = got[name].astype(int), theirs[name].astype(int)
            apart = np.abs(ours - other.reshape(ours.shape))
            if apart.max() > max(APART.get(t, 0) for t in part.taken):
                wrong.append(f"{part.label}: {np.count_nonzero(apart)} by up to {apart.max()}")
    assert not wrong


def layer(net: Net, x: str, w: tuple[int, ...], out: str | None = None, **attrs: object) -> str:
    """A convolution of quantised values of 0.05 and 3 to others of the same."""
    weights = net.dq(net.const(quantised_values(*w)), 0.001, np.int8(0))
    y = net.add("Conv", net.dq(x, 0.05, np.int8(3)), weights, **attrs)
    return net.q(y, 0.05, np.int8(3), out=out)


def in_two_regions() -> Net:
    """A convolution, an operator that the NPU does not have, a convolution whose result becomes a
    row of a product."""
    net = Net(x=("int8", (1, 3, 6, 6)))
    first = layer(net, "x", (4, 3, 3, 3))
    between = net.q(net.add("Sin", net.dq(first, 0.05, np.int8(3))), 0.05, np.int8(3))
    image = layer(net, between, (5, 4, 1, 1))
    row = net.add("Reshape", image, np.array([1, 80]))
    weights = net.dq(net.const(quantised_values(80, 7)), 0.01, np.int8(0))
    y = net.add("MatMul", net.dq(row, 0.05, np.int8(3)), weights)
    net.q(y, 0.05, np.int8(3), out="y")
    return net


#: A driver that hands on what it is given as the result, to see whose results a bundle has.
DRIVER = """
#include <stdint.h>
#include <string.h>
struct ethosu_driver { int used; } only;
struct ethosu_driver *ethosu_reserve_driver(void) { return &only; }
void ethosu_release_driver(struct ethosu_driver *d) { d->used = 0; }
int ethosu_invoke_v3(struct ethosu_driver *d, const void *c, const int n, uint64_t *const at,
                     const size_t *sizes, const int count, void *user) {
    if (n % 4 || count != 3 || user || memcmp(c, "COP1", 4)) return -1;
    memset((void *)(uintptr_t)at[1], 7, sizes[1]);
    return d->used++;
}
"""


def test_whose_driver_runs_a_region(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stand-in for the driver reads the streams; what it or a real one refuses ends the run."""
    out, root = tmp_path / "out", tmp_path / "driver"
    options = Options(name="net", backends=("ethos_u:u55-128",), requant="tflite")
    compile_to(in_two_regions().model(y="int8"), out, options, configure=False)
    x = [quantised_values(1, 3, 6, 6)]
    built(out)
    assert aotc(["bench", str(out), "--repeat", "2"]) == 0
    estimate = r"region 1 \(ethos_u\): \d+ operations, \d+ cycles, \d+ bytes of SRAM, \d+ of flash"
    assert re.search(estimate, capsys.readouterr().out)
    files = sorted((out / "bundle" / "ethos_u").glob("*.tflite"))
    (first,) = interpreted(files[0], {"x": x[0]}).values()
    sines = np.sin((first.astype(np.float32) - 3) * np.float32(0.05)) / np.float32(0.05)
    between = json.loads(files[1].with_suffix(".json").read_text())["inputs"][0]["name"]
    fed = {between: np.clip(np.rint(sines) + 3, -128, 127).astype(np.int8)}
    assert np.array_equal(execute(open_out(out), x)[0], interpreted(files[1], fed)["y"])
    begin = {r["region"]: r["nodes"][0] for r in reversed(merged.manifest_of(out)["nodes"])}
    for npu, fails, region in (("0/8", "", 0), ("", "2", 1)):
        built(out, f"-DAOT_ETHOS_U_STANDIN_NPU={npu}", f"-DAOT_ETHOS_U_STANDIN_FAIL={fails}")
        for run in (execute, lambda net, arrays: timed(net, 1, 0, arrays)):
            with pytest.raises(AotError, match="a vendor library reported an error") as caught:
                run(open_out(out), x)
            assert caught.value.where == f"ethos_u (region that begins at {begin[region]})"
        assert f"`cmake -DAOT_ETHOS_U=OFF {out}`" in caught.value.hint
    (root / "lib").mkdir(parents=True)
    (root / "driver.c").write_text(DRIVER)
    subprocess.run(["gcc", "-c", root / "driver.c", "-o", root / "driver.o"], check=True)
    archive = root / "lib" / "libethosu_core_driver.a"
    subprocess.run(["ar", "rcs", archive, root / "driver.o"], check=True)
    built(out, f"-DAOT_ETHOS_U_ROOT={root}")
    assert np.all(execute(open_out(out), x)[0] == 7)


@pytest.mark.parametrize("npu", NPUS)
@pytest.mark.parametrize("name", TINY)
def test_networks_are_one_region(
    name: str, npu: str, models_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"mlperf_{name}_int8"
    compiled = [str(models_folder / f"{model}.onnx"), "-o", str(tmp_path), "--no-configure"]
    compiled += ["--requant", "tflite", "--backend", f"ethos_u:{npu}", "--require-backend"]
    assert aotc(compiled) == 0, capsys.readouterr().err
    assert f"{model}: 1 call," in capsys.readouterr().out
    (network,) = (tmp_path / "bundle" / "ethos_u").glob("*.tflite")
    samples = tflite_outputs(models_folder, model)
    ends = json.loads(network.with_suffix(".json").read_text())
    enters, result = ends["inputs"][0], ends["outputs"][0]["name"]
    for k in range(len(samples) // 2):
        source = next(v for n, v in samples.items() if n.startswith(f"s{k}/") and n[3:] != result)
        image = np.moveaxis(source, -1, 1) if enters["channels_last"] else source
        found = interpreted(network, {enters["name"]: image})[result]
        assert np.array_equal(found.reshape(-1), samples[f"s{k}/{result}"].reshape(-1))


def unary(op_type: str, to: tuple[float, int], *more: object, **attrs: object) -> Net:
    """An operator from quantised values of 0.05 and 3 to others."""
    net = Net(x=("int8", (1, 4, 24, 24)))
    y = net.add(op_type, net.dq("x", 0.05, np.int8(3)), *more, **attrs)
    net.q(y, to[0], np.int8(to[1]), out="y")
    return net


def convolution(x: tuple[int, ...], w: tuple[int, ...], **attrs: object) -> Net:
    net = Net(x=("int8", x))
    layer(net, "x", w, out="y", **attrs)
    return net


SAME = (0.05, 3)
F = np.float32
REFUSED = [
    (convolution((1, 4, 4, 4, 4), (4, 4, 1, 1, 1)), "rank 5 (needs 1 to 4)"),
    (
        convolution((1, 4, 16, 16), (4, 4, 3, 3), strides=[4, 4], pads=[1, 1, 1, 1]),
        "stride 4 (needs at most 3)",
    ),
    (convolution((1, 4, 8, 8), (4, 2, 3, 3), group=2), "2 groups of several channels"),
    (
        convolution((1, 4, 9, 9), (4, 1, 3, 3), group=4, strides=[5, 5]),
        "stride 5 (needs at most 3)",
    ),
    (unary("AveragePool", (0.06, 3), kernel_shape=[2, 2]), "differ from those of x"),
    (
        unary("AveragePool", SAME, kernel_shape=[9, 1], pads=[4, 0, 4, 0]),
        "padded window of side 9 (needs at most 8)",
    ),
    (unary("Clip", SAME, F(0), F(3)), "a Clip that is neither Relu6 nor from -1 to 1"),
    (unary("Sigmoid", (1 / 255, -128)), "(needs 1/256 and -128)"),
    (unary("Softmax", (1 / 255, -128)), "(needs 1/256 and -128)"),
]


@pytest.mark.parametrize(("net", "reason"), REFUSED, ids=[r for _, r in REFUSED])
def test_refusals_say_why(net: Net, reason: str) -> None:
    partition = merged.partition_of(net.model(y="int8"), ("ethos_u:u55-128",))
    reasons = [r.reason for r in partition.refusals if r.backend == "ethos_u"]
    assert any(reason in r for r in reasons), reasons
    assert {s.backend for s in partition.items} == {"c"}


def test_a_larger_family_has_larger_limits() -> None:
    net = convolution((1, 4, 16, 16), (4, 4, 3, 3), strides=[4, 4], pads=[1, 1, 1, 1])
    partition = merged.partition_of(net.model(y="int8"), ("ethos_u:u85-256",))
    assert "ethos_u" in {s.backend for s in partition.items}


def test_the_choice_by_cost(tmp_path: Path) -> None:
    """Vela's cycles and the start of the NPU against portable C: a large layer pays, a small one
    does not."""
    for size, chosen in ((32, "ethos_u"), (3, "c")):
        net = convolution((1, 4, size, size), (8, 4, 3, 3))
        options = Options(target="cortex-m55", backends=("ethos_u",), partition="cost")
        compile_to(net.model(y="int8"), tmp_path / chosen, options, configure=False)
        nodes = merged.manifest_of(tmp_path / chosen)["nodes"]
        assert [n["backend"] for n in nodes if n["macs"]] == [chosen]


@pytest.mark.parametrize(
    ("backend_name", "given", "said"),
    [
        ("ethos_u:u55-129", {}, "did you mean u55-128?"),
        ("ethos_u", {"memroy": "x"}, "did you mean memory?"),
        ("ethos_u", {"memory": "Shared_Ram"}, "did you mean Shared_Sram?"),
        ("ethos_u", {"system": "Ethos_U55_Deep"}, "did you mean Ethos_U55_Deep_Embedded?"),
        ("ethos_u", {"ini": "nowhere.ini"}, "cannot be read"),
    ],
)
def test_unknown_configurations(backend_name: str, given: dict[str, str], said: str) -> None:
    options = Options(backend_options={f"ethos_u.{k}": v for k, v in given.items()})
    with pytest.raises(UsageError) as caught:
        backends_for((backend_name,), options=options)
    assert said in f"{caught.value} {caught.value.hint}"


@pytest.fixture
def without_vela(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    configs.vela_ini.cache_clear()
    monkeypatch.setattr(configs, "find_spec", lambda name: None)
    yield
    configs.vela_ini.cache_clear()


@pytest.mark.usefixtures("without_vela")
def test_vela_is_not_installed() -> None:
    with pytest.raises(UsageError) as caught:
        backends_for(("ethos_u:u55-128",))
    assert caught.value.hint == "pip install 'aotc[ethos-u]'"


def test_a_network_that_vela_cannot_read() -> None:
    """Vela ends its process for it; the next network has another one."""
    npu = configs.named("u55-128")
    with pytest.raises(VelaError, match="Vela ended: "):
        worker.compile(npu, b"no network")
    net = Network()
    x, y = (net.tensor((1, 4), 0.5, 0, name) for name in "xy")
    net.op("RELU", [x], y)
    assert worker.compile(npu, net.data([x], [y])).cycles > 0


def test_inputs_and_outputs_keep_their_order() -> None:
    """Where Vela says that they are is where the commands read and write them."""
    net = Network()
    tensors = [net.tensor((1, 4, 4, 8), 0.1 * (i + 1), i, f"t{i}") for i in range(4)]
    first, second = (net.tensor((1, 4, 4, 8), 0.2, 0, name) for name in "yz")
    net.op("SUB", [tensors[2], tensors[0]], first, activation=0)
    net.op("SUB", [tensors[3], tensors[1]], second, activation=0)
    network = net.data([tensors[i] for i in (1, 0, 3, 2)], [second, first])
    made = worker.compile(configs.named("u55-128"), network)
    words = np.frombuffer(made.commands, np.uint32).tolist()
    bases: dict[int, list[int]] = {0x4000: [], 0x4080: [], 0x4010: []}
    for word, value in itertools.pairwise(words):
        bases.get(word, []).append(value)
    at = [place[1] for place in (*made.inputs, *made.outputs)]
    assert bases == {0x4000: [at[3], at[2]], 0x4080: [at[1], at[0]], 0x4010: [at[5], at[4]]}
