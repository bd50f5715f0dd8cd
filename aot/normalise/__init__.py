# SPDX-License-Identifier: Apache-2.0
"""One spelling per operation: an ordered tuple of passes, run until nothing changes.

Every pass is one file; its docstring shows the graph before and after. A pass keeps the graph
typed, sorted and equal in value (floats: up to the rounding of folded constants). Fusion is not
done here: it belongs to the backends.
"""

from __future__ import annotations

from collections.abc import Callable

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, graphs
from aot.ir.graph_nodes import all_nodes
from aot.load.dump import model_text
from aot.load.names import name_everything
from aot.load.options import LoadOptions
from aot.normalise.affine import affine
from aot.normalise.arithmetic import arithmetic
from aot.normalise.attention import attention
from aot.normalise.attention_forms import attention_forms
from aot.normalise.attributes import attributes
from aot.normalise.batchnorm import batch_norm
from aot.normalise.branches import branches
from aot.normalise.broadcasts import broadcasts
from aot.normalise.channels_last import channels_last
from aot.normalise.clips import clips
from aot.normalise.cse import cse
from aot.normalise.dead import dead_nodes, unused_constants
from aot.normalise.expand import expand
from aot.normalise.fold import Budget, fold
from aot.normalise.gemm import gemm
from aot.normalise.halves import halves
from aot.normalise.identities import identities
from aot.normalise.merge_slices import pieces
from aot.normalise.norms import norms
from aot.normalise.optional_operands import interface
from aot.normalise.padding import padding
from aot.normalise.pools import pools
from aot.normalise.quantised.bias import quant_bias
from aot.normalise.quantised.clips import quant_clips
from aot.normalise.quantised.dead import quant_dead
from aot.normalise.quantised.fold import fold_weights
from aot.normalise.quantised.last_state import quant_last
from aot.normalise.quantised.moves import quant_moves
from aot.normalise.quantised.nbits import quant_nbits
from aot.normalise.quantised.params import quant_params
from aot.normalise.quantised.share import quant_share
from aot.normalise.quantised.signed import quant_signed
from aot.normalise.quantised.spelling import quant_spelling
from aot.normalise.quantised.weights import quant_weights
from aot.normalise.quantised.wide import quant_wide
from aot.normalise.recognise_activations import products
from aot.normalise.reshapes import reshapes
from aot.normalise.scaling import scaling
from aot.normalise.shared_weights import share_constants, shared_weights
from aot.normalise.transposes import transposes
from aot.normalise.variances import variances
from aot.shapes.control_flow_isolated import isolate
from aot.shapes.infer import assert_typed

Pass = Callable[[Editor, LoadOptions], None]

PASSES: tuple[Pass, ...] = (
    branches,
    dead_nodes,
    quant_spelling,
    attributes,
    attention_forms,
    quant_params,
    quant_nbits,
    quant_weights,
    identities,
    broadcasts,
    reshapes,
    transposes,
    pieces,
    cse,
    clips,
    arithmetic,
    variances,
    norms,
    attention,
    products,
    channels_last,
    pools,
    padding,
    batch_norm,
    affine,
    scaling,
    gemm,
    halves,
    interface,
    quant_clips,
    quant_moves,
    quant_wide,
    quant_last,
    quant_signed,
    quant_bias,
    quant_dead,
    dead_nodes,
)
#: A bound, because passes that undo each other would go on for ever.
MAX_ROUNDS = 8


def rewrite_until_stable(model: ir.Model, options: LoadOptions, budget: Budget) -> None:
    """Run every pass on every graph of `model`, in place, until none finds anything to do."""
    for _ in range(MAX_ROUNDS):
        changed = False
        for graph in list(graphs(model)):
            # Before a fold makes transposed copies of weights.
            first = Editor(graph)
            shared_weights(first, options)
            changed = fold(Editor(graph), budget) or first.changed or changed
            for rewrite in PASSES:
                edit = Editor(graph)
                rewrite(edit, options)
                changed = changed or edit.changed
        if not changed:
            break


def finish(model: ir.Model, options: LoadOptions, budget: Budget) -> bool:
    """What can be done only when nothing else changes any more; whether that changes again."""
    folded, sums = False, "DequantizeLinear" in options.keeps
    for graph in list(graphs(model)):
        quant_share(Editor(graph))
        folded = fold_weights(Editor(graph), budget, sums) or folded
    return folded


#: Nodes that are matched and lowered within half a minute, with what comes before.
MOST_NODES = 75_000


def check_size(graph: ir.Graph) -> None:
    """UnsupportedError if `graph`, with the graphs within it, has more nodes than MOST_NODES."""
    if (count := sum(1 for _ in all_nodes(graph))) > MOST_NODES:
        what = f"the model has {count} nodes after normalising (limit {MOST_NODES})"
        raise UnsupportedError(what, hint="loops of the same nodes can be an ONNX Loop or Scan")


def normalise(model: ir.Model, options: LoadOptions | None = None) -> ir.Model:
    """`model`, rewritten in place: canonical operators, constants folded, every value typed, C
    names.
    """
    options = options or LoadOptions()
    budget = Budget(options)
    share_constants(model)
    for _ in range(MAX_ROUNDS):
        isolate(model.graph)
        rewrite_until_stable(model, options, budget)
        # Nodes that are finished or expanded may give the passes new work.
        if not finish(model, options, budget) and not expand(model, options):
            break
    unused_constants(model)
    name_everything(model)
    assert_typed(model)
    return model


__all__ = ["PASSES", "LoadOptions", "model_text", "normalise"]
