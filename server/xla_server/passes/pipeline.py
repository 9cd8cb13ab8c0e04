"""The pipeline: every pass in its order."""

import functools

from xla_server.passes.canonicalize.convolutions.channels_last import ChannelsLast
from xla_server.passes.canonicalize.convolutions.convolution_canonicaliser import (
    ConvolutionCanonicaliser,
)
from xla_server.passes.canonicalize.convolutions.convolution_im2col import ConvolutionIm2col
from xla_server.passes.canonicalize.convolutions.library_convolution import LibraryConvolution
from xla_server.passes.canonicalize.degenerate_dimensions import Squeeze
from xla_server.passes.canonicalize.dots.dot_canonicaliser import DotCanonicaliser
from xla_server.passes.canonicalize.dots.transposed_dot import TransposedDot
from xla_server.passes.canonicalize.float_widening import FloatWidening
from xla_server.passes.canonicalize.transposes.transpose_folding import TransposeFolding
from xla_server.passes.canonicalize.transposes.transpose_mover import TransposeMover
from xla_server.passes.expand.batch_norm_expander import BatchNormExpander
from xla_server.passes.expand.bitcast_expander import BitcastExpander
from xla_server.passes.expand.collective_expander import CollectiveExpander
from xla_server.passes.expand.custom_call_expander import CustomCallExpander
from xla_server.passes.expand.one_hot_scatter import OneHotScatter
from xla_server.passes.expand.ragged_dot_expander import RaggedDotExpander
from xla_server.passes.expand.rng_expander import RngExpander
from xla_server.passes.expand.scaled_dot_expander import ScaledDotExpander
from xla_server.passes.expand.scan_expander import ScanExpander
from xla_server.passes.expand.scatter_simplifier import SingleScatter
from xla_server.passes.expand.small_dot_expander import SmallDotExpander
from xla_server.passes.framework.fixpoint import Fixpoint, Pass
from xla_server.passes.loops.while_hoisting import WhileHoisting
from xla_server.passes.loops.while_simplifier import WhileSimplifier
from xla_server.passes.loops.while_state import WhileState
from xla_server.passes.reductions.argminmax import ArgumentOfExtremum
from xla_server.passes.reductions.concatenate_reduction import ConcatenateReduction
from xla_server.passes.reductions.disjoint_windows import DisjointWindows
from xla_server.passes.reductions.stacked_elements import StackedElements
from xla_server.passes.reductions.tree_reduction import TreeReduction
from xla_server.passes.reductions.variadic_reduction import VariadicReduction
from xla_server.passes.scalar_loops.element_loops import ElementLoops
from xla_server.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xla_server.passes.simplify.call_inliner import CallInliner, FusionInliner
from xla_server.passes.simplify.conditional_simplifier import ConditionalSimplifier
from xla_server.passes.simplify.constant_folding import ConstantFolding
from xla_server.passes.simplify.cse import CommonSubexpressions
from xla_server.passes.simplify.dead_code import DeadCode
from xla_server.passes.simplify.empty_arrays import EmptyArrays
from xla_server.passes.simplify.static_sizes import StaticSizes
from xla_server.passes.simplify.tuple_simplifier import TupleSimplifier
from xla_server.target.target import Target

_LOCAL: tuple[Pass, ...] = (
    # Tuples that are packed only to be unpacked hide operands from all other passes.
    TupleSimplifier(),
    # Before constant evaluation, which would compute values that can be dropped.
    AlgebraicSimplifier(),
    # Its reshapes merge with others in the next round.
    Squeeze(),
    ConstantFolding(),
    # Last, as all others make equal instructions.
    CommonSubexpressions(),
)


@functools.cache
def pipeline(target: Target) -> tuple[Pass, ...]:
    """Return the passes before fusion, in their order, for modules whose shapes are static."""
    capability = target.capability
    control: tuple[Pass, ...] = (
        ConditionalSimplifier(target),
        # Before the state is shrunk, which removes the counter's initial value from it.
        WhileSimplifier(target),
        WhileState(),
        # After constants were written into bodies, which makes more instructions invariant.
        WhileHoisting(target),
    )
    return (
        # First: only this pass reads layouts, and no pass keeps them.
        BitcastExpander(),
        # Before calls are inlined, because the halves of an asynchronous call become one.
        CollectiveExpander(),
        # Before calls are inlined, too, as its loops call the step.
        ScanExpander(),
        # Early, so that all later passes see through calls.
        FusionInliner(),
        CallInliner(),
        StaticSizes(),
        # Before simplification, which does not see through markers.
        CustomCallExpander(),
        # Expansions into operations that are simplified and fused.
        BatchNormExpander(),
        RaggedDotExpander(),
        ScaledDotExpander(),
        # After passes that may reduce a scalar computation to a formula; it may introduce rng.
        ElementLoops(),
        # Before simplification, which evaluates operations on bounds that are constants.
        RngExpander(),
        # Before simplification of its slices, whose indices may be known.
        SingleScatter(),
        # After the single scatter, which handles one row. Processors scatter in one kernel.
        *((OneHotScatter(),) if capability.COMPARES_INDICES else ()),
        # Before narrow sums are widened, as single reductions are.
        VariadicReduction(),
        # After passes that make dots and reductions.
        FloatWidening(target),
        # Before simplification, whose rules assume that arrays have elements.
        EmptyArrays(),
        # With TransposeMover inside, as simplification merges the transposes that it moves.
        Fixpoint("simplification", (*_LOCAL, TransposeMover(), *control)),
        # After simplification, which merges transposes, and before passes that choose by the order
        # of dimensions in which dots and convolutions read their operands.
        TransposeFolding(target),
        # After simplification, which merges reshapes and broadcasts.
        StackedElements(target),
        # After the pass above, whose operations on parts it combines, and after constant
        # evaluation, by which initial values of reductions are constants.
        ConcatenateReduction(target),
        # Before convolutions with channels last and windows of one element become products. GPU
        # libraries take any order of dimensions.
        *((ChannelsLast(target),) if capability.lays_out_convolutions else ()),
        ConvolutionCanonicaliser(),
        # After convolutions that are products became dots.
        *((LibraryConvolution(target),) if capability.has_convolutions else ()),
        # After the passes for convolutions that need no im2col.
        ConvolutionIm2col(target),
        # Before dots are brought into the forms of routines.
        SmallDotExpander(target),
        # Before dots become products of matrices, which are followed by reshapes.
        TransposedDot(),
        # After simplification, which removes dimensions of size 1 and transposes that move nothing.
        DotCanonicaliser(target),
        # After channels are last, which does not change windows.
        DisjointWindows(target),
        # After simplification, which exposes initial values of reductions and unread results.
        ArgumentOfExtremum(target),
        # After dots, some of which became reductions, and after the pass above, which makes others.
        TreeReduction(target),
        # The two passes above leave reshapes.
        Fixpoint("clean-up", (*_LOCAL, EmptyArrays())),
        # Last, so that no dead code is compiled.
        DeadCode(),
    )


NEEDED: frozenset[str] = frozenset(
    {
        # The expanded operations have no kernels.
        BitcastExpander.name,
        CollectiveExpander.name,
        ScanExpander.name,
        FusionInliner.name,
        StaticSizes.name,
        CustomCallExpander.name,
        BatchNormExpander.name,
        RaggedDotExpander.name,
        ScaledDotExpander.name,
        ElementLoops.name,
        RngExpander.name,
        # Sums of narrow floats are rounded once; LAPACK has no narrow floats at all.
        FloatWidening.name,
        # Other passes and kernels assume arrays with elements.
        EmptyArrays.name,
    }
)
"""Passes that no option disables: programs would not compile without them, or would change."""
