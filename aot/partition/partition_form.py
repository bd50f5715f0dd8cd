# SPDX-License-Identifier: Apache-2.0
"""The front half of a compilation: load, normalise, and select who computes which node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from aot.errors import UsageError, raise_all
from aot.ir.deferred_import import ir
from aot.ir.stages import Stages
from aot.load import load, model_text
from aot.load.options import LoadOptions
from aot.load.source import Opened
from aot.normalise import check_size, normalise
from aot.options import Options
from aot.partition.annotate import annotate
from aot.partition.claims import load_options
from aot.partition.control_flow import select_all
from aot.partition.cost.costs import costs_for
from aot.partition.kept import check_kept
from aot.partition.result import Partition, cheaper
from aot.partition.rewrites import rewrite_for
from aot.vendor.backend import Backend


def partition_form(
    opened: Opened,
    options: Options,
    backends: Sequence[Backend],
    marked_only: Sequence[str],
    stage: Stages,
    survey: bool = False,
    keeps: Sequence[str] = (),
) -> tuple[ir.Model, Partition]:
    """The normalised model and who of `backends` computes which node.

    Backends in `marked_only` get nodes that the user gives them, and no others. With `survey` a
    node that no backend supports is reported in the partition instead of an error. `keeps` are
    operators to leave as they are besides those that backends keep. By cost, what backends keep is
    tried both ways: a kept operator is not always worth what it prevents.
    """
    costs = costs_for(options) if options.partition == "cost" else None
    limit = options.offload_limit
    select = partial(
        select_all,
        backends=backends,
        offload_limit=limit,
        survey=survey,
        marked_only=marked_only,
        costs=costs,
    )
    preferred = next((b.name for b in backends if b.name not in marked_only), "")
    rewrite = partial(rewrite_for, backends=backends, marked_only=marked_only)
    form = partial(_form, opened, options, rewrite, select, preferred, stage)
    load_with = load_options(options, backends, keeps)
    first = form(load_with)
    if costs is None or not any(b.keeps for b in backends):
        return first
    try:
        return cheaper(first, form(replace(load_with, keeps=frozenset(keeps))))
    except UsageError:  # this form has no node for what the user said of it
        return first


def _form(
    opened: Opened,
    options: Options,
    rewrite: Callable[..., None],
    select: Callable[[ir.Graph], Partition],
    preferred: str,
    stage: Stages,
    load_with: LoadOptions,
) -> tuple[ir.Model, Partition]:
    """One form of the model, and its partition: operators in `load_with.keeps` are left as they
    are, and `rewrite` has the vendors' words."""
    stage.begin("load")
    model = load(opened, load_with)
    noted = annotate(model, options.keep, options.regions, preferred)
    stage.show("load", lambda: model_text(model))
    model = stage("normalise", partial(normalise, model, load_with), model_text)
    rewrite(model, options=load_with)
    raise_all(check_kept(model, noted, options.regions))
    check_size(model.graph)
    return model, stage("partition", partial(select, model.graph), Partition.text)
