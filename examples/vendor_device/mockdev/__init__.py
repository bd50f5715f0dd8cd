# SPDX-License-Identifier: Apache-2.0
"""A device with its own memory and a queue: regions are uploaded, queued, awaited, downloaded."""

import math

from aot.vendor import F32, Backend, Speed

OPERATORS = ("Add", "Sub", "Mul", "Relu", "Neg")
#: Bytes of the device's memory.
DEVICE_BYTES = 4 * 1024 * 1024
backend = Backend(
    "mockdev",
    header="mockdev.h",
    sources=("mockdev.h", "mockdev.c"),
    # What `--partition cost` counts: a trip costs 20 us, copies run at 4 bytes per ns.
    speed=Speed(
        macs_per_ns=1000, bytes_per_ns=50, call_ns=200, enter_ns=20000, border_bytes_per_ns=4
    ),
)


def fits(m):
    yield m.y.dtype is F32, f"dtype {m.y.dtype} (needs float32)"
    shapes = [v.shape for _, v in m.inputs()]
    yield all(s == m.y.shape for s in shapes), f"shapes {shapes} (nothing is broadcast)"
    yield math.prod(m.y.shape) > 0, "nothing to compute"


def declare(name):
    if name in ("Relu", "Neg"):
        pattern = backend.pattern(lambda op, a: getattr(op, name)(a))
    else:
        pattern = backend.pattern(lambda op, a, b: getattr(op, name)(a, b))
    pattern.name = name.lower()
    pattern.check(fits)


for operator in OPERATORS:
    declare(operator)


@backend.fits
def in_its_memory(region):
    """A region that the device cannot hold is never made: aotc cuts it or gives it back."""
    used = region.places()[1]
    yield used <= DEVICE_BYTES, f"a region of {used} bytes (the device has {DEVICE_BYTES})"


@backend.region
def on_the_device(c, region):
    """Copies in, commands, copies out, which await the commands."""
    at, _ = region.places()
    device = c.state("mockdev_open", c.params(bytes=DEVICE_BYTES), release="mockdev_close", slots=1)
    consts = {v.name: v for _, m in region.matches for _, v in m.inputs() if v.is_const}
    for v in (*region.inputs, *consts.values()):
        params = c.params(at=at[v.name], bytes=math.prod(v.shape) * 4)
        c.call("mockdev_upload", device, v, params, status=True)
    for _, m in region.matches:
        operands = [at[v.name] for _, v in m.inputs()]
        first, second = operands[0], operands[-1]
        number = OPERATORS.index(m.root.op_type)
        n = math.prod(m.y.shape)
        params = c.params(op=number, n=n, a=first, b=second, y=at[m.y.name])
        c.call("mockdev_compute", device, params, status=True)
    for v in region.outputs:
        params = c.params(at=at[v.name], bytes=math.prod(v.shape) * 4)
        c.call("mockdev_download", device, v, params, status=True)
