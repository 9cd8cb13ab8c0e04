"""Calls of the functions of jax.numpy that reduce, make, move, pick and search."""

import numpy as np

from tests.corpus.jax.calls.values import (
    LOGICAL,
    NANS,
    OTHER,
    A,
    B,
    C,
    Group,
    K,
    M,
    N,
    P,
    T,
    U,
    V,
    W,
    X,
    Y,
    each,
)

_REDUCE = (
    "all any amax amin argmax argmin average count_nonzero max mean median min prod ptp std sum "
    "var nanargmax nanargmin nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar"
)
_ALONG = "argsort cumprod cumsum diff nancumprod nancumsum sort cumulative_prod cumulative_sum flip"
_QUANTILES = "nanpercentile nanquantile percentile quantile"
_WINDOWS = "bartlett blackman hamming hanning"


def reductions() -> Group:
    import jax.numpy as jnp

    return {
        **each(jnp, _REDUCE, X),
        **each(jnp, _REDUCE, NANS, tag="/axis", axis=1),
        **each(jnp, "all any argmax max mean min prod std sum var ptp", N, tag="/int", axis=0),
        **each(jnp, "max mean prod std sum var min", C, tag="/complex", axis=0),
        **each(jnp, "mean sum prod std var", X.astype("f2"), tag="/f16", axis=0),
        **each(jnp, _ALONG, X, axis=1),
        **each(jnp, "argsort cumprod cumsum sort", N, tag="/int", axis=0),
        **each(jnp, "argsort sort", NANS, tag="/nan", axis=0, descending=True),
        **each(jnp, "cumsum cumprod sort sort_complex", C[0], tag="/complex"),
        **each(jnp, _QUANTILES, X, 0.3, axis=0),
        **each(jnp, _QUANTILES, X, 0.7, tag="/nearest", axis=1, method="nearest"),
        **each(jnp, "sort_complex ediff1d", C[0]),
        **each(jnp, "array_equal array_equiv allclose", X, Y),
        "sum/where": (lambda x: jnp.sum(x, 0, where=x > 0, initial=2.0, keepdims=True), X),
        "average/weights": (lambda x, p: jnp.average(x, 1, p, returned=True), X, P),
        "gradient": (lambda x: jnp.gradient(x, 0.5), X),
        "trapezoid": (lambda x, y: jnp.trapezoid(x, y), V, W),
        "cov": (jnp.cov, X),
        "corrcoef": (jnp.corrcoef, X),
        "lexsort": (lambda n, m: jnp.lexsort((n[0], m[0])), N, M),
        "partition": (lambda x: jnp.partition(x, 2, axis=1), X),
        "argpartition": (lambda x: jnp.sort(jnp.argpartition(x, 2, axis=1)[:, :2]), X),
        "apply_along_axis": (lambda x: jnp.apply_along_axis(jnp.sum, 1, x), X),
        "apply_over_axes": (lambda t: jnp.apply_over_axes(jnp.sum, t, (0, 2)), T),
    }


def products() -> Group:
    import jax.numpy as jnp

    return {
        **each(jnp, "dot inner outer vdot convolve correlate polyadd polymul polysub vecdot", V, W),
        **each(jnp, "kron dot matmul", A, B),
        **each(jnp, "vdot inner vecdot dot convolve", C[0], C[1], tag="/complex"),
        **each(jnp, "dot matmul", N, N.T, tag="/int"),
        **each(jnp, "cross", X[:, :3], Y[:, :3]),
        **each(jnp, "matvec", A, B[:, 0]),
        **each(jnp, "vecmat", B[:, 0], A),
        "matmul/batched": (lambda t: jnp.matmul(t, t.swapaxes(1, 2)), T),
        "einsum": (lambda t, x: jnp.einsum("ijk,kl->lij", t, x), T, X),
        "einsum/trace": (lambda a: jnp.einsum("ii", a), A),
        "tensordot": (lambda x, y: jnp.tensordot(x, y, 1), A, B),
        "trace": (lambda a: jnp.trace(a, 1), A),
        "convolve/same": (lambda v, w: jnp.convolve(v, w[:3], "same"), V, W),
        "correlate/full": (lambda v, w: jnp.correlate(v, w[:3], "full"), V, W),
        "poly": (jnp.poly, V[:4]),
        "polyder": (lambda v: jnp.polyder(v, 2), V),
        "polydiv": (lambda v, w: jnp.polydiv(v, w[:3]), V, W),
        "polyfit": (lambda v, w: jnp.polyfit(v, w, 2), V, W),
        "polyint": (jnp.polyint, V),
        "polyval": (jnp.polyval, V, X),
        "roots": (lambda v: jnp.sort(jnp.abs(jnp.roots(v, strip_zeros=False))), V[:5]),
        "vander": (lambda v: jnp.vander(v, 4), V),
    }


def makers() -> Group:
    import jax.numpy as jnp

    return {
        **each(jnp, _WINDOWS, M=7),
        "identity": (lambda: jnp.identity(3),),
        "eye": (lambda: jnp.eye(3, 4, 1),),
        "tri": (lambda: jnp.tri(3, 4, -1),),
        "kaiser": (lambda: jnp.kaiser(7, 5.0),),
        "arange": (lambda: jnp.arange(1, 9, 2),),
        "arange/float": (lambda: jnp.arange(0.0, 1.0, 0.3),),
        "linspace": (lambda a: jnp.linspace(a, 3.0, 7), X[0]),
        "logspace": (lambda a: jnp.logspace(a, 2.0, 5), X[0]),
        "geomspace": (lambda a: jnp.geomspace(a, 2.0, 5), P[0]),
        "zeros": (lambda: jnp.zeros((2, 3)),),
        "ones": (lambda: jnp.ones((2, 3), int),),
        "full": (lambda a: jnp.full((2, 6), a), X[0]),
        "empty": (lambda: jnp.empty((2, 3)),),
        **each(jnp, "zeros_like ones_like empty_like", X),
        "full_like": (lambda x: jnp.full_like(x, 3), X),
        "fromfunction": (lambda: jnp.fromfunction(lambda i, j: i * 2 + j, (3, 4)),),
        "indices": (lambda: jnp.indices((2, 3)),),
        "meshgrid": (jnp.meshgrid, V, W),
        "ix_": (jnp.ix_, V, W),
        "diag": (lambda v: jnp.diag(v, 1), V),
        "diagflat": (jnp.diagflat, X),
        "diag_indices": (lambda: jnp.diag_indices(3),),
        **each(jnp, "diag_indices_from tril_indices_from triu_indices_from", A),
        **each(jnp, "tril_indices triu_indices", n=4, k=1),
        "mask_indices": (lambda: jnp.mask_indices(3, jnp.triu, size=6),),
        "r_": (lambda v: jnp.r_[v, 1:4, v[::-1]], V),
        "c_": (lambda v: jnp.c_[v, v * 2], V),
        "mgrid": (lambda: jnp.mgrid[0:3, 0:1:4j],),
        "ogrid": (lambda: jnp.ogrid[0:3, 1:4],),
    }


def moves() -> Group:
    import jax.numpy as jnp

    return {
        **each(
            jnp,
            "ravel transpose matrix_transpose squeeze tril triu fliplr flipud rot90 "
            "diagonal atleast_1d atleast_2d atleast_3d trace",
            X,
            tag="/move",
        ),
        **each(
            jnp,
            "column_stack concat concatenate dstack hstack stack vstack block",
            [X, Y],
        ),
        **each(jnp, "append", X, Y),
        "array_split": (lambda x: jnp.array_split(x, 4, 1), X),
        "hsplit": (lambda x: jnp.hsplit(x, 2), X),
        "vsplit": (lambda x: jnp.vsplit(x, 2), X),
        "dsplit": (lambda t: jnp.dsplit(t, 2), T),
        "split": (lambda x: jnp.split(x, [2, 5], 1), X),
        "unstack": (jnp.unstack, X),
        "broadcast_to": (lambda v: jnp.broadcast_to(v, (3, 8)), V),
        "expand_dims": (lambda x: jnp.expand_dims(x, (0, 2)), X),
        "moveaxis": (lambda t: jnp.moveaxis(t, 0, 2), T),
        "rollaxis": (lambda t: jnp.rollaxis(t, 2), T),
        "permute_dims": (lambda t: jnp.permute_dims(t, (1, 2, 0)), T),
        "broadcast_arrays": (lambda x, v: jnp.broadcast_arrays(x, v[:6]), X, V),
        "swapaxes": (lambda t: jnp.swapaxes(t, 0, 1), T),
        "reshape": (lambda x: jnp.reshape(x, (3, -1), order="F"), X),
        "resize": (lambda x: jnp.resize(x, (5, 7)), X),
        "repeat": (lambda x: jnp.repeat(x, 2, axis=1), X),
        "repeat/counts": (lambda x: jnp.repeat(x, K, 1, total_repeat_length=9), X),
        "tile": (lambda x: jnp.tile(x, (2, 1, 2)), X),
        "roll": (lambda x: jnp.roll(x, (1, -2), (0, 1)), X),
        "rot90/twice": (lambda x: jnp.rot90(x, 2), X),
        **{
            f"pad/{mode}": (lambda x, mode=mode: jnp.pad(x, ((1, 2), (0, 3)), mode), X)
            for mode in [
                "constant",
                "edge",
                "linear_ramp",
                "maximum",
                "mean",
                "median",
                "minimum",
                "reflect",
                "symmetric",
                "wrap",
                "empty",
            ]
        },
        "pad": (lambda x: jnp.pad(x, 2, constant_values=7), N),
        "view/bits": (lambda x: x.view(jnp.uint8), X),
        "packbits": (jnp.packbits, LOGICAL),
        "unpackbits": (jnp.unpackbits, K.astype("u1")),
    }


def picks() -> Group:
    import jax.numpy as jnp

    return {
        "take": (lambda x, k: jnp.take(x, k, axis=1), X, K),
        "take/fill": (lambda x, k: jnp.take(x, k + 3, axis=0), X, K),
        "take_along_axis": (lambda x, k: jnp.take_along_axis(x, k[None, :3], 1), X, K),
        "put": (lambda x, k: jnp.put(x, k, 5.0, inplace=False), X, K),
        "put_along_axis": (
            lambda x, k: jnp.put_along_axis(x, k[None, :1], 9.0, 1, inplace=False),
            X,
            K,
        ),
        "place": (lambda x: jnp.place(x, x > 0, jnp.array([1.0, 2.0]), inplace=False), X),
        "fill_diagonal": (lambda a: jnp.fill_diagonal(a, 3.0, inplace=False), A),
        "compress": (lambda x: jnp.compress(x[0] > 0, x, 1, size=3), X),
        "extract": (lambda m, x: jnp.extract(m, x, size=5, fill_value=7), LOGICAL, X),
        "delete": (lambda x: jnp.delete(x, np.array([1, 3]), 1), X),
        "delete/traced": (lambda v, k: jnp.delete(v, k, assume_unique_indices=True), V, K[:3]),
        "insert": (lambda x: jnp.insert(x, 2, 7.0, axis=1), X),
        "nonzero": (lambda n: jnp.nonzero(n, size=9, fill_value=1), N),
        "flatnonzero": (lambda n: jnp.flatnonzero(n, size=9), N),
        "argwhere": (lambda n: jnp.argwhere(n > 0, size=7), N),
        "index/boolean": (lambda x: jnp.where(x > 0, x, 0)[::2, ::-1], X),
        "index/negative": (lambda x, k: x[-1, -k], X, K),
        "at/apply": (lambda x, k: x.at[k, 1].apply(jnp.square, mode="drop"), A, K),
        "at/max": (lambda x, k: x.at[:, k].max(0.3).at[0].min(-1), X, K),
        "at/divide": (lambda x, k: x.at[0, k[:2]].divide(3.0).at[1].power(2), X, K),
        "at/get": (lambda x, k: x.at[:, k * 2].get(mode="fill", fill_value=3), X, K),
        "ravel_multi_index": (
            lambda k: jnp.ravel_multi_index((k, k + 1), (4, 6), mode="clip"),
            K,
        ),
        "unravel_index": (lambda k: jnp.unravel_index(k * 3, (4, 6)), K),
    }


def searches() -> Group:
    import jax.numpy as jnp

    two = (N[0], N[1])
    return {
        **each(jnp, "isin", N, K),
        **each(jnp, "intersect1d setdiff1d setxor1d union1d", *two, size=5, fill_value=-99),
        **each(jnp, "unique unique_counts unique_values", N, size=12, fill_value=-99),
        **each(jnp, "unique_all unique_inverse", N, size=12, fill_value=-99),
        "unique/all": (
            lambda n: jnp.unique(n, True, True, True, axis=0, size=3, fill_value=0),
            N % 2,
        ),
        "bincount": (lambda k: jnp.bincount(k, length=5), K),
        "bincount/weights": (lambda k, v: jnp.bincount(k, v[:6], length=5), K, V),
        "digitize": (lambda x: jnp.digitize(x, jnp.array([-1.0, 0.0, 1.0])), X),
        "searchsorted": (lambda v, x: jnp.searchsorted(jnp.sort(v), x, side="right"), V, X),
        "searchsorted/sort": (
            lambda v, x: jnp.searchsorted(jnp.sort(v), x, method="sort"),
            V,
            X,
        ),
        "histogram": (lambda v: jnp.histogram(v, 5), V),
        "histogram/weights": (
            lambda v, w: jnp.histogram(v, 4, weights=w, density=True),
            V,
            P.ravel()[:8],
        ),
        "histogram2d": (lambda v, w: jnp.histogram2d(v, w, 3), V, W),
        "histogramdd": (lambda x: jnp.histogramdd(x[:, :2], 3), X),
        "histogram_bin_edges": (lambda v: jnp.histogram_bin_edges(v, 4), V),
        "interp": (lambda x, v, w: jnp.interp(x, jnp.sort(v), w), X, V, W),
        "interp/period": (lambda x, v, w: jnp.interp(x, v, w, period=2.0), X, V, W),
        "outer/self": (lambda u: jnp.outer(u, u), U[0]),
        "iscomplex/where": (lambda m, o: jnp.where(m & ~o, 1, 0), LOGICAL, OTHER),
    }


PROGRAMS = (reductions, products, makers, moves, picks, searches)
