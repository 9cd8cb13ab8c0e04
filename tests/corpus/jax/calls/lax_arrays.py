"""Calls of the functions of jax.lax that move, pick, contract and factor; jax.lax.linalg."""

import functools

import numpy as np

from tests.corpus.jax.calls.values import (
    IMAGES,
    A,
    B,
    C,
    Group,
    H,
    K,
    M,
    N,
    P,
    S,
    T,
    V,
    X,
    Y,
    Z,
    each,
    reasons,
)

_SCATTERS = (
    "scatter",
    "scatter_add",
    "scatter_sub",
    "scatter_mul",
    "scatter_min",
    "scatter_max",
)


def moves() -> Group:
    import jax.numpy as jnp
    from jax import lax

    return {
        "broadcast": (lambda x: lax.broadcast(x, (2,)), X),
        "broadcast_in_dim": (lambda v: lax.broadcast_in_dim(v, (3, 8, 2), (1,)), V),
        "broadcast_like": (lambda v: lax.broadcast_like(v, jnp.zeros((3, 8))), V),
        "broadcast_to_rank": (lambda v: lax.broadcast_to_rank(v, 3), V),
        "collapse": (lambda t: lax.collapse(t, 1), T),
        "concatenate": (lambda x, y: lax.concatenate([x, y], 1), X, Y),
        "expand_dims": (lambda x: lax.expand_dims(x, (1,)), X),
        "pad": (lambda x: lax.pad(x, x[0, 0], ((1, -1, 2), (-1, 3, 0))), X),
        "reshape": (lambda x: lax.reshape(x, (3, 8), (1, 0)), X),
        "rev": (lambda x: lax.rev(x, (0, 1)), X),
        "slice": (lambda x: lax.slice(x, (1, 0), (4, 5), (2, 3)), X),
        "slice_in_dim": (lambda x: lax.slice_in_dim(x, 1, 6, 2, 1), X),
        "split": (lambda x: lax.split(x, (2, 3, 1), 1), X),
        "squeeze": (lambda x: lax.squeeze(x[:, None], (1,)), X),
        "stack": (lambda x, y: lax.stack([x, y], 1), X, Y),
        "unstack": (lambda x: lax.unstack(x, 1), X),
        "tile": (lambda x: lax.tile(x, (2, 1)), X),
        "transpose": (lambda t: lax.transpose(t, (2, 0, 1)), T),
        "optimization_barrier": (lambda x, y: lax.optimization_barrier((x, y)), X, Y),
        "composite": (
            lambda x: lax.composite(lambda a: jnp.sin(a) * 2, "ours.sine")(x),
            X,
        ),
        "fft": (lambda c: lax.fft(c, "FFT", (4, 6)), C),
        "fft/irfft": (lambda c: lax.fft(c, lax.FftType.IRFFT, (11,)), C),
        "stage": (lambda x: x + 1, X),
        "platform_dependent": (
            lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
            X,
        ),
        "after_all": (lambda x: (lax.after_all(lax.create_token(x)), x)[1] * 2, X),
        "create_token": (lambda x: (lax.create_token(x), x)[1] * 3, X),
    }


def picks() -> Group:
    import jax.numpy as jnp
    from jax import lax

    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    whole = lax.GatherDimensionNumbers((1,), (0,), (0,))

    def scattered(name: str) -> object:
        function = getattr(lax, name)
        return lambda x, k, y: function(x, k[:3, None] * 2, y[:3], numbers)

    return {
        "dynamic_slice": (lambda x, k: lax.dynamic_slice(x, (k[0], k[1]), (2, 3)), X, K),
        "dynamic_slice_in_dim": (lambda x, k: lax.dynamic_slice_in_dim(x, k[0], 3, 1), X, K),
        "dynamic_index_in_dim": (lambda x, k: lax.dynamic_index_in_dim(x, -k[1], 1), X, K),
        "dynamic_update_slice": (
            lambda x, y, k: lax.dynamic_update_slice(x, y[:2, :2], (k[0], k[2])),
            X,
            Y,
            K,
        ),
        "dynamic_update_slice_in_dim": (
            lambda x, y, k: lax.dynamic_update_slice_in_dim(x, y[:2], k[0], 0),
            X,
            Y,
            K,
        ),
        "dynamic_update_index_in_dim": (
            lambda x, y, k: lax.dynamic_update_index_in_dim(x, y[0], k[0], 0),
            X,
            Y,
            K,
        ),
        "index_in_dim": (lambda x: lax.index_in_dim(x, -2, 1), X),
        "index_take": (lambda x, k: lax.index_take(x, (k,), (1,)), X, K),
        **{
            f"gather/{mode}": (
                lambda x, k, mode=mode: lax.gather(x, k[:, None] * 2, whole, (1, 5), mode=mode),
                X,
                K,
            )
            for mode in ("clip", "fill")
        },
        "gather/batching": (
            lambda x, k: jnp.take_along_axis(x, k[:4, None], 1),
            X,
            K,
        ),
        **{name: (scattered(name), X, K, Y) for name in _SCATTERS},
        "scatter_apply": (
            lambda x, k: lax.scatter_apply(
                x, k[:3, None], jnp.sin, numbers, update_shape=(3, 6), unique_indices=True
            ),
            X,
            K,
        ),
    }


def contractions() -> Group:
    import jax
    import jax.numpy as jnp
    from jax import lax

    layouts = ("NHWC", "HWIO", "NHWC")
    kernel = IMAGES[0, :3, :3]
    square = IMAGES[:, :3, :3, :].transpose(1, 2, 3, 0)
    images = IMAGES.transpose(0, 3, 1, 2)
    convolve = functools.partial(lax.conv_general_dilated, dimension_numbers=layouts)

    def pooled(images):  # type: ignore[no-untyped-def]
        # A concrete start makes it a maximum that has a derivative.
        start = np.array(-np.inf, images.dtype)
        return lax.reduce_window(images, start, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    return {
        "dot": (lax.dot, A, B),
        "dot/int": (lambda n, m: lax.dot(n, m.T), N, M),
        "batch_matmul": (lambda t: lax.batch_matmul(t, t.swapaxes(1, 2)), T),
        "dot_general": (lambda t, x: lax.dot_general(t, x, (((2,), (0,)), ((), ()))), T, X),
        "dot_general/algorithm": (
            lambda a, b: lax.dot(a, b, precision=lax.DotAlgorithmPreset.F32_F32_F32),
            A.astype("f4"),
            B.astype("f4"),
        ),
        "dot_general/preferred": (
            lambda n, m: lax.dot(n, m.T, preferred_element_type=jnp.int32),
            N.astype("i1"),
            M.astype("i1"),
        ),
        "ragged_dot": (
            lambda x, t: lax.ragged_dot(x.T[:, :3], t, jnp.array([2, 4], jnp.int32)),
            X,
            T,
        ),
        "ragged_dot_general": (
            lambda x, y: lax.ragged_dot_general(
                x,
                y,
                jnp.array([1, 2, 1], jnp.int32),
                lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], []),
            ),
            X,
            Y,
        ),
        "conv": (lambda i, k: lax.conv(i, k, (2, 1), "SAME"), images, images[:, :, :3, :2]),
        "conv_with_general_padding": (
            lambda i, k: lax.conv_with_general_padding(
                i, k, (1, 2), ((1, 0), (-1, 2)), (2, 1), (1, 2)
            ),
            images,
            images[:, :, :3, :2],
        ),
        "conv_general_dilated": (lambda i, k: convolve(i, k, (1, 1), "SAME"), IMAGES, square),
        "conv_general_dilated/grouped": (
            lambda i, k: convolve(i, k[:, :, None, :], (1, 1), "VALID", feature_group_count=4),
            IMAGES,
            kernel,
        ),
        "conv_general_dilated/batches": (
            lambda i, k: convolve(i, k, (1, 1), "VALID", batch_group_count=2),
            IMAGES,
            square,
        ),
        "conv_general_dilated/gradient": (
            jax.grad(
                lambda i, k: (convolve(i, k, (2, 1), "SAME", rhs_dilation=(1, 2)) ** 2).sum(),
                (0, 1),
            ),
            IMAGES,
            square,
        ),
        "conv_general_dilated_local": (
            lambda i, k: lax.conv_general_dilated_local(
                i[:, :, :3, :3],
                k[:, :1, :1, 0].reshape(2, 1, 1, 1) * jnp.ones((2, 16, 2, 2)),
                (1, 1),
                "VALID",
                (2, 2),
            ),
            images,
            images,
        ),
        "conv_general_dilated_patches": (
            lambda i: lax.conv_general_dilated_patches(i, (2, 3), (1, 2), "SAME"),
            images,
        ),
        "conv_transpose": (
            lambda i, k: lax.conv_transpose(i, k, (2, 2), "SAME"),
            IMAGES,
            square,
        ),
        "reduce_window/gradient": (jax.grad(lambda i: (pooled(i) ** 2).sum()), IMAGES),
        "reduce_window/jvp": (
            lambda i, j: jax.jvp(pooled, (i,), (j,)),
            IMAGES,
            2 * IMAGES,
        ),
        "custom_linear_solve": (
            lambda s, v: lax.custom_linear_solve(
                lambda x: s @ x, v[:5], lambda f, b: jnp.linalg.solve(s, b), symmetric=True
            ),
            S,
            V,
        ),
        "custom_root": (
            lambda p: lax.custom_root(
                lambda x: x**3 - p,
                jnp.ones_like(p),
                lambda f, x: lax.fori_loop(0, 20, lambda i, x: x - f(x) / (3 * x**2), x),
                lambda g, y: y / g(jnp.ones_like(y)),
            ),
            P,
        ),
    }


def factorizations() -> Group:
    from jax import lax

    return {
        **each(lax, "linalg.cholesky linalg.eigh linalg.lu linalg.qr linalg.svd", S),
        **each(lax, "linalg.eigh linalg.lu linalg.qr linalg.svd", H, tag="/batched"),
        **each(lax, "linalg.eig linalg.hessenberg linalg.schur linalg.lu linalg.qr", A, tag="/A"),
        **each(lax, "linalg.eig linalg.hessenberg linalg.schur linalg.lu linalg.qr", Z, tag="/Z"),
        **each(lax, "linalg.tridiagonal", S, lower=True),
        **each(lax, "linalg.tridiagonal", Z @ Z.conj().T, tag="/complex", lower=True),
        "linalg.eig": (lambda a: lax.linalg.eig(a, compute_left_eigenvectors=False), A),
        "linalg.hessenberg": (lax.linalg.hessenberg, H),
        "linalg.schur": (lambda a: lax.linalg.schur(a, sort_eig_vals=False), A),
        "linalg.cholesky_update": (lax.linalg.cholesky_update, S, A[0]),
        "linalg.householder_product": (
            lambda b: (
                lax.linalg.householder_product(*lax.linalg.geqrf(b))
                if hasattr(lax.linalg, "geqrf")
                else lax.linalg.householder_product(b, b[0])
            ),
            B,
        ),
        "linalg.ormqr": (lambda b, a: lax.linalg.ormqr(b, b[0], a), B, A),
        "linalg.lu_pivots_to_permutation": (
            lambda a: lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(a)[1], 5),
            A,
        ),
        "linalg.qdwh": (lambda a: lax.linalg.qdwh(a)[:2], A),
        "linalg.qr/pivoting": (lambda a: lax.linalg.qr(a, pivoting=True), B),
        "linalg.svd/full": (lambda b: lax.linalg.svd(b, full_matrices=True), B),
        "linalg.svd/jacobi": (
            lambda b: lax.linalg.svd(b, algorithm=lax.linalg.SvdAlgorithm.QR),
            B,
        ),
        "linalg.symmetric_product": (
            lambda b, s: lax.linalg.symmetric_product(b, s, alpha=2.0, beta=0.5),
            B,
            S,
        ),
        **{
            f"linalg.triangular_solve/{left}{lower}{transpose}": (
                lambda s, b, left=left, lower=lower, transpose=transpose: (
                    lax.linalg.triangular_solve(
                        s, b if left else b.T, left_side=left, lower=lower, transpose_a=transpose
                    )
                ),
                S,
                B,
            )
            for left in (False, True)
            for lower in (False, True)
            for transpose in (False, True)
        },
        "linalg.triangular_solve/conjugate": (
            lambda z: lax.linalg.triangular_solve(
                z, z, lower=True, transpose_a=True, conjugate_a=True, unit_diagonal=True
            ),
            Z,
        ),
        "linalg.tridiagonal_solve": (
            lambda v, b: lax.linalg.tridiagonal_solve(v[:5] * 0.1, v[:5] + 9, v[3:] * 0.1, b),
            V,
            B,
        ),
    }


PROGRAMS = (moves, picks, contractions, factorizations)

NOT_A_PROGRAM = reasons(
    {
        "a type or a description": "AccuracyMode ConvDimensionNumbers DotDimensionNumbers "
        "ConvGeneralDilatedDimensionNumbers DotAlgorithm DotAlgorithmPreset FftType "
        "GatherDimensionNumbers GatherScatterMode Precision PrecisionLike "
        "RaggedDotDimensionNumbers "
        "RandomAlgorithm RoundingMethod ScatterDimensionNumbers Tolerance linalg.EigImplementation "
        "linalg.EighImplementation linalg.SvdAlgorithm",
        "answers from types and shapes alone, when it is traced": "broadcast_shapes "
        "conv_dimension_numbers conv_general_permutations conv_general_shape_tuple "
        "conv_shape_tuple conv_transpose_shape_tuple dtype padtype_to_pads "
        "reduce_window_shape_tuple shape_as_value",
        "needs a named axis: several devices, which tests/corpus/jax/programs.py has, or vmap": (
            "all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute "
            "precv psend pshuffle psum psum_scatter pswapaxes ragged_all_to_all"
        ),
        "places values on devices and in meshes": "with_sharding_constraint",
        "tells tracing what may be removed, and leaves nothing in a program": "dce_sink",
        "stands in the corpus of transformations": "associative_scan cond fori_loop map scan "
        "switch while_loop",
        "has no lowering for CPUs": "scaled_dot",
    }
)
