"""The pipeline: every pass in its order."""

import functools

from xla_server.passes.canonicalize.channels_last import ChannelsLast
from xla_server.passes.canonicalize.convolution_canonicaliser import ConvolutionCanonicaliser
from xla_server.passes.canonicalize.convolution_im2col import ConvolutionIm2col
from xla_server.passes.canonicalize.degenerate_dimensions import Squeeze
from xla_server.passes.canonicalize.dot_canonicaliser import DotCanonicaliser
from xla_server.passes.canonicalize.float_widening import FloatWidening
from xla_server.passes.canonicalize.library_convolution import LibraryConvolution
from xla_server.passes.canonicalize.transpose_folding import TransposeFolding
from xla_server.passes.canonicalize.transpose_mover import TransposeMover
from xla_server.passes.canonicalize.transposed_dot import TransposedDot
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
from xla_server.passes.simplify.map_inliner import MapInliner
from xla_server.passes.simplify.static_sizes import StaticSizes
from xla_server.passes.simplify.tuple_simplifier import TupleSimplifier
from xla_server.target.target import Target

_LOCAL: tuple[Pass, ...] = (
    # Tuples that are packed only to be unpacked hide operands from all other passes.
    TupleSimplifier(),
    # Before constant evaluation, which would compute values that can be dropped.
    AlgebraicSimplifier(),
    # Its reshapes meet in the next round.
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
        # Before the state is shrunk, which takes from it where the counter starts.
        WhileSimplifier(target),
        WhileState(),
        # After constants were written into bodies, which makes more of them invariant.
        WhileHoisting(target),
    )
    return (
        # First: it is the only one that reads layouts, and no pass keeps them.
        BitcastExpander(),
        # Before calls are inlined, because the halves of an asynchronous call become one.
        CollectiveExpander(),
        # Before calls are inlined as well: its loops call the step.
        ScanExpander(),
        # So that all that follows sees through calls.
        FusionInliner(),
        CallInliner(),
        MapInliner(),
        StaticSizes(),
        # Before simplification, which sees through what is marked no more.
        CustomCallExpander(),
        # These write operations out in terms of those that are simplified and fused.
        BatchNormExpander(),
        RaggedDotExpander(),
        ScaledDotExpander(),
        # After those that may leave a formula of a computation on scalars, out of which it may
        # bring rng.
        ElementLoops(),
        # Before simplification, which evaluates operations on bounds that are constants.
        RngExpander(),
        # Its slices are simplified where the index turns out to be known.
        SingleScatter(),
        # After it, which needs no more than one row. Processors scatter in one kernel.
        *((OneHotScatter(),) if capability.COMPARES_INDICES else ()),
        # Before narrow sums are widened, which single ones are.
        VariadicReduction(),
        # After those that make dots and reductions.
        FloatWidening(target),
        # Before simplification, whose rules take it that there is an element to speak of.
        EmptyArrays(),
        # Simplification brings together the transposes that meet.
        Fixpoint("simplification", (*_LOCAL, TransposeMover(), *control)),
        # After simplification, which brings transposes together, and before all that chooses by the
        # order of dimensions in which dots and convolutions read their operands.
        TransposeFolding(target),
        # After simplification, which brings reshapes and broadcasts together.
        StackedElements(target),
        # After it, whose operations on parts it combines, and after constant evaluation: initial
        # values of reductions are constants then.
        ConcatenateReduction(target),
        # Before convolutions with windows of one element become products if channels are last.
        # Libraries of GPUs take any order of dimensions.
        *((ChannelsLast(target),) if capability.lays_out_convolutions else ()),
        ConvolutionCanonicaliser(),
        # After those that are products as they are.
        *((LibraryConvolution(target),) if capability.has_convolutions else ()),
        # After those that need no im2col.
        ConvolutionIm2col(target),
        # Before they are brought into the forms of routines.
        SmallDotExpander(target),
        # Before dots become products of matrices, behind which reshapes stand in between.
        TransposedDot(),
        # After simplification, which finds the true sizes and the transposes that are none.
        DotCanonicaliser(target),
        # After features are last, which leaves windows as they are.
        DisjointWindows(target),
        # After simplification, which shows what reductions start from and which results are read.
        ArgumentOfExtremum(),
        # After the dots, some of which became reductions, and that split, which makes others.
        TreeReduction(target),
        # Both leave reshapes.
        Fixpoint("clean-up", (*_LOCAL, EmptyArrays())),
        # Last, so that nothing without a reader is compiled.
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
        # Sums of narrow floats are rounded once; LAPACK knows no narrow floats at all.
        FloatWidening.name,
        # Without it other passes and kernels would meet arrays without elements.
        EmptyArrays.name,
    }
)
"""Passes that no option leaves out: programs would not compile, or compile to something else."""
