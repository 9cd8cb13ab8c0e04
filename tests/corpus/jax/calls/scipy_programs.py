"""Calls of jax.scipy: linear algebra, signals, images, statistics, solvers."""

import numpy as np

from tests.corpus.jax.calls.values import A, B, Group, N, S, U, V, W, X, Y, Z, each, reasons

_TRIANGLE = np.tril(A) + 3 * np.eye(5)


def linear_algebra() -> Group:
    import jax.numpy as jnp
    import jax.scipy.linalg as linalg

    made = "dft helmert hilbert invhilbert invpascal pascal"
    return {
        **each(linalg, made, n=4),
        "hadamard": (lambda: linalg.hadamard(4),),
        **each(linalg, "circulant companion fiedler", V),
        **each(linalg, "fiedler_companion", V[:4]),
        **each(linalg, "toeplitz hankel", V[:4], W[:5]),
        **each(linalg, "leslie", V[:4], W[:3]),
        **each(linalg, "convolution_matrix", V, n=4),
        **each(linalg, "block_diag", A, B, V),
        **each(linalg, "det inv expm lu lu_factor qr schur svd sqrtm", A),
        **each(linalg, "det inv expm lu qr schur", Z, tag="/complex"),
        **each(linalg, "cholesky cho_factor eigh sqrtm polar", S, tag="/S"),
        **each(linalg, "hessenberg", A, calc_q=True),
        **each(linalg, "expm_frechet", A, A.T),
        "cholesky": (lambda s: linalg.cholesky(s, lower=True), S),
        "cho_factor": (lambda s: linalg.cho_factor(s)[0], S),
        "cho_solve": (lambda s, b: linalg.cho_solve((linalg.cholesky(s), False), b), S, B),
        "eigh": (lambda s: linalg.eigh(s, eigvals_only=True), S),
        "eigh_tridiagonal": (
            lambda v, w: linalg.eigh_tridiagonal(v, w[:7], eigvals_only=True),
            V,
            W,
        ),
        "funm": (lambda s: linalg.funm(s, jnp.sin, disp=False), S),
        "lu_solve": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 1), A, B),
        "polar": (lambda a: linalg.polar(a, "left", method="svd"), A),
        "qr/economic": (lambda b: linalg.qr(b, mode="economic", pivoting=True), B),
        "qr_multiply": (lambda b, a: linalg.qr_multiply(b, a), B, A),
        "rsf2csf": (lambda a: linalg.rsf2csf(*linalg.schur(a)), A),
        "schur/output": (lambda a: linalg.schur(a, "complex"), A),
        "solve": (lambda s, b: linalg.solve(s, b, assume_a="pos"), S, B),
        "solve_sylvester": (
            lambda s, a: linalg.solve_sylvester(s, s + 1, a, method="schur"),
            S,
            A,
        ),
        "solve_triangular": (
            lambda t, b: linalg.solve_triangular(t, b, trans="T", lower=True),
            _TRIANGLE,
            B,
        ),
        "svd/gesvd": (lambda b: linalg.svd(b, lapack_driver="gesvd"), B),
    }


def signals() -> Group:
    import jax.scipy as jsp
    import jax.scipy.fft as fft
    import jax.scipy.signal as signal

    long = np.concatenate([V, W, X.ravel(), Y.ravel()])
    return {
        **each(signal, "convolve correlate fftconvolve", V, W),
        **each(signal, "convolve correlate", V, W, tag="/fft", method="fft", mode="same"),
        **each(signal, "convolve2d correlate2d", X, A[:2, :3], mode="same"),
        **each(signal, "detrend", X),
        **each(signal, "detrend", X, tag="/constant", type="constant"),
        **each(signal, "stft welch", long, nperseg=16),
        **each(signal, "csd", long, long[::-1], nperseg=16),
        "istft": (
            lambda x: signal.istft(signal.stft(x, nperseg=16)[2], nperseg=16),
            long,
        ),
        **each(fft, "dct dctn idct idctn", X),
        **each(fft, "dct idct", X, tag="/ortho", norm="ortho", axis=0, n=5),
        **{
            f"map_coordinates/{order}{mode}": (
                lambda x, u, order=order, mode=mode: jsp.ndimage.map_coordinates(
                    x, [4 * u - 0.5, 6 * u], order, mode
                ),
                X,
                U,
            )
            for order in (0, 1)
            for mode in ["constant", "nearest", "wrap", "mirror", "reflect"]
        },
    }


def statistics() -> Group:
    import jax.numpy as jnp
    import jax.scipy as jsp
    from jax.scipy import stats

    return {
        "gaussian_kde": (
            lambda v, w: (
                lambda kde: (kde.evaluate(w), kde.logpdf(w), kde.integrate_box_1d(-1, 1))
            )(stats.gaussian_kde(v)),
            V,
            W,
        ),
        "mode": (lambda n: stats.mode(n, axis=0), N),
        "rankdata": (stats.rankdata, N),
        "rankdata/axis": (lambda n: stats.rankdata(n, "dense", axis=1), N),
        "sem": (stats.sem, X),
        "vq": (lambda x, y: jsp.cluster.vq.vq(x, y[:3]), X, Y),
        "trapezoid": (lambda x, v: jsp.integrate.trapezoid(x, v[:6], axis=1), X, V),
        "RegularGridInterpolator": (
            lambda x, u: jsp.interpolate.RegularGridInterpolator(
                (jnp.arange(4.0), jnp.arange(6.0)), x, bounds_error=False, fill_value=None
            )(5 * u.reshape(12, 2)),
            X,
            U,
        ),
        "RegularGridInterpolator/nearest": (
            lambda x, u: jsp.interpolate.RegularGridInterpolator(
                (jnp.arange(4.0), jnp.arange(6.0)), x, "nearest", False
            )(5 * u.reshape(12, 2)),
            X,
            U,
        ),
    }


def rotations() -> Group:
    import jax.numpy as jnp
    from jax.scipy.spatial.transform import Rotation, Slerp

    def every_form(x):  # type: ignore[no-untyped-def]
        rotation = Rotation.from_quat(x[:, :4])
        other = Rotation.from_rotvec(x[:, 3:])
        both = rotation * other.inv()
        return (
            both.as_matrix(),
            both.as_euler("xyz"),
            both.as_rotvec(),
            both.as_mrp(),
            both.as_quat(),
            both.apply(x[:, :3]),
            both.magnitude(),
            Rotation.from_matrix(both.as_matrix()).as_quat(),
            Rotation.from_euler("zyx", x[:, :3]).as_matrix(),
        )

    def between(x):  # type: ignore[no-untyped-def]
        slerp = Slerp.init(jnp.arange(4.0), Rotation.from_quat(x[:, :4]))
        return slerp(jnp.array([0.3, 1.5, 2.9])).as_matrix()

    return {"Rotation": (every_form, X), "Slerp": (between, X)}


def solvers() -> Group:
    import jax.numpy as jnp
    from jax.scipy.optimize import minimize
    from jax.scipy.sparse import linalg

    def rosenbrock(x):  # type: ignore[no-untyped-def]
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def minimum(x):  # type: ignore[no-untyped-def]
        found = minimize(rosenbrock, x, method="BFGS")
        return found.x, found.success

    return {
        **{
            name: (
                lambda s, b, name=name: getattr(linalg, name)(s, b[:, 0], tol=1e-6)[0],
                S,
                B,
            )
            for name in ("cg", "bicgstab", "gmres")
        },
        "gmres/incremental": (
            lambda s, b: linalg.gmres(lambda x: s @ x, b[:, 0], solve_method="incremental")[0],
            S,
            B,
        ),
        "minimize": (minimum, V[:3]),
    }


PROGRAMS = (linear_algebra, signals, statistics, rotations, solvers)

NOT_A_PROGRAM = reasons({"a record of results": "OptimizeResults"})
